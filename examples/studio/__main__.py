"""An animation that goes on while its engine is killed: `python -m examples.studio --seconds 10 --kill-every 40`.

On a terminal, and with `--window`, `k` kills the engine and `q` ends the show. Elsewhere there is a summary only.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable

from examples.studio.display import Screen
from examples.studio.messages import Settings
from examples.studio.troupe import make
from greenroom.pods import MainLoop


def main(settings: Settings, screen: Screen, mainloop: Callable[[MainLoop], object] | None = None) -> int:
    """Play, and say how it went."""
    studio = make(settings, screen)
    studio.play(mainloop)
    ledger, restarts = studio.system.ledger(), studio.status["engine"].restarts
    print(f"Drawn: {screen.drawn} frames, torn {screen.torn}, out of order {screen.disordered}.")
    print(f"Skipped: {screen.skipped} frames, at {restarts} restarts of the engine.")
    print(f"Telemetry: {screen.report.frames} frames made by {screen.report.starts} engines, as last heard.")
    print(f"The ledger {'balances' if ledger.balanced else 'does NOT balance'}: {ledger}")
    return 0 if ledger.balanced and screen.torn == screen.disordered == 0 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to play (10)")
    parser.add_argument("--frames", type=int, help="end with this frame, if the time is not up before")
    parser.add_argument("--fps", type=float, default=30.0, help="frames per second (30)")
    parser.add_argument("--kill-every", type=int, default=60, help="kill the engine at every n-th frame (60); 0: never")
    parser.add_argument("--window", action="store_true", help="show it in a window, by Tk")
    options = parser.parse_args()
    logging.getLogger("greenroom").setLevel(logging.CRITICAL)  # the failures are part of the show
    settings = Settings(options.fps, options.frames, options.seconds, options.kill_every)
    if options.window:
        from examples.studio.window import Window

        window = Window()
        sys.exit(main(settings, window, window.run))
    sys.exit(main(settings, Screen(is_terminal=sys.stdout.isatty() and sys.stdin.isatty())))
