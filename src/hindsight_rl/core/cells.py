"""Text in the cells of CSV files, which spreadsheets take for formulas when it begins like one."""

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")
_MARK = "'"


def harmless(text: str) -> str:
    """Text that a spreadsheet shows and does not compute: with an apostrophe in front, which `meant` takes away."""
    return _MARK + text if text.lstrip(_MARK).startswith(_BEGINNINGS) else text


def meant(cell: str) -> str:
    """The inverse of `harmless`."""
    return cell[1:] if cell.startswith(_MARK) and cell.lstrip(_MARK).startswith(_BEGINNINGS) else cell
