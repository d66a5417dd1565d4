"""The commands of the application: parsing and printing only."""
