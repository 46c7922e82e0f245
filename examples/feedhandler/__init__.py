"""A market-data feed handler, in which a cancel overtakes the quotes that wait.

desk       the pods and the troupe: start reading here
messages   what they send to one another
"""
