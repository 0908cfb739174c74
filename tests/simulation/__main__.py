"""`python -m tests.simulation --seed 7` or `--seeds 1000 --processes 2`."""

from __future__ import annotations

import click

from tests.simulation.run import run_seed


@click.command()
@click.option("--seed", type=int)
@click.option("--seeds", type=int)
@click.option("--first", type=int, default=0)
@click.option("--without", default="")
@click.option("--stop", is_flag=True)
def main(seed: int | None, seeds: int | None, first: int, without: str, stop: bool) -> None:
    left_out = {int(one) for one in without.split(",") if one}
    for one in [seed] if seed is not None else range(first, first + (seeds or 1)):
        verdict = run_seed(one, without=left_out)
        print(
            verdict.seed,
            hex(verdict.trace),
            verdict.transactions,
            verdict.committed,
            f"{verdict.simulated_s:.1f} s sim, {verdict.seconds:.2f} s cpu",
            verdict.steps,
            "FAILED" if verdict.failed else "",
        )
        if verdict.failed:
            print(verdict.options)
            print("\n".join(verdict.faults))
            print("\n".join(verdict.events))
            for v in verdict.violations[:6]:
                print("VIOLATION", v[:500], "...", v[-1500:] if len(v) > 500 else "")
            if stop:
                break


main()
