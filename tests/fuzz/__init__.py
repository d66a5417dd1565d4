"""Every reader of foreign files, fed with damaged ones: it reads them or refuses them in a sentence, nothing else.

``python -m tests.fuzz --minutes 10`` gives each reader that long and writes ``benchmarks/results/fuzz.json``.
"""
