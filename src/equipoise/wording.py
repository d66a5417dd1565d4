"""Numbers with their nouns, as people read them."""

IRREGULAR = {"class": "classes"}


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or plural.

    >>> counted(1, "class"), counted(2, "class"), counted(1200, "seed")
    ('1 class', '2 classes', '1,200 seeds')
    """
    return f"{number:,} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun that is used here.

    >>> plural("class"), plural("attribute")
    ('classes', 'attributes')
    """
    return IRREGULAR.get(noun, f"{noun}s")


def duration(seconds: float) -> str:
    """Seconds, minutes or hours with two digits that count, never zero of a unit.

    >>> duration(0.004), duration(0.42), duration(3.14), duration(59.7), duration(84), duration(5400), duration(86400)
    ('less than 0.1 s', '0.4 s', '3.1 s', '60 s', '84 s', '90 min', '24 h')
    """
    if seconds < 0.05:
        return "less than 0.1 s"
    for unit, size, most in (("s", 1, 100), ("min", 60, 100)):
        if round(seconds / size) < most:
            return _two_digits(seconds / size, unit)
    return _two_digits(seconds / 3600, "h")


def _two_digits(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"
