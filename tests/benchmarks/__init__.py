"""Benchmarks: they print and write figures, and assert nothing.

``python -m tests.benchmarks.kernels`` measures kernels against public peers in one process;
``python -m tests.benchmarks.scenes`` whole captures through the command line, beside the targets of this version.
Both say how much of the machine other processes took meanwhile.
"""
