"""Which build this is: in a compiled one, this module is an extension like the other hot ones."""

COMPILED: bool = not __file__.endswith((".py", ".pyc"))
