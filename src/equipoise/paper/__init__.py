"""The paper: its data sets, its tables and figures, and its experiments on faces."""
