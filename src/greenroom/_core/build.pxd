# Empty on purpose: its presence has build.py compiled.
