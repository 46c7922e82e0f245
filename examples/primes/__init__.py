"""Primes counted on all processors, by actors in worker processes; one of which is killed on the way."""
