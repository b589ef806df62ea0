"""Worst response times of random task sets in SimSo, as CSV; see README.md beside it."""
import random
import sys

from simso.configuration import Configuration
from simso.core import Model

SCHEDULERS = {"FP": "simso.schedulers.FP", "EDF": "simso.schedulers.EDF_mono"}
# SimSo counts in cycles; one of ours is a thousandth of a millisecond.
TICK_MS = 0.001


def run(scheduler, tasks, duration_ms):
    configuration = Configuration()
    configuration.duration = duration_ms * configuration.cycles_per_ms
    for number, (cost, period, deadline, offset, priority) in enumerate(tasks):
        configuration.add_task(
            name=f"t{number}", identifier=number + 1, period=period, activation_date=offset,
            wcet=cost, deadline=deadline, abort_on_miss=False, data={"priority": priority},
        )
    configuration.add_processor(name="CPU", identifier=1)
    configuration.scheduler_info.clas = SCHEDULERS[scheduler]
    configuration.check_all()
    model = Model(configuration)
    model.run_model()
    worst = {}
    for task in model.results.tasks.values():
        times = [job.response_time for job in task.jobs if job.response_time is not None]
        worst[task.task.name] = max(times, default=0) / configuration.cycles_per_ms
    return [worst[f"t{number}"] for number in range(len(tasks))]


def main():
    draw = random.Random(3)
    print("set,policy,duration,execution,period,offset,priority,response")
    done = 0
    while done < 120:
        policy = "FP" if done % 2 == 0 else "EDF"
        tasks = []
        for _ in range(draw.choice([2, 3, 4, 5])):
            period = draw.choice([4, 5, 8, 10, 12, 20])
            cost = draw.choice([0.5, 1, 1.5, 2])
            offset = 0 if done % 3 == 0 else draw.randrange(period)
            tasks.append([cost, period, period, offset, 0])
        if sum(cost / period for cost, period, *_ in tasks) >= 0.95:
            continue
        # No two of one priority: which of them SimSo runs first isn't ours to copy.
        ranks = list(range(50, 50 + len(tasks)))
        draw.shuffle(ranks)
        if policy == "EDF" and len({task[1] for task in tasks}) < len(tasks):
            continue
        for task, rank in zip(tasks, ranks):
            task[4] = rank
        duration = 240
        for task, response in zip(tasks, run(policy, tasks, duration)):
            cost, period, _, offset, rank = task
            ticks = [round(value / TICK_MS) for value in (duration, cost, period, offset)]
            print(done, policy, *ticks, rank, round(response / TICK_MS), sep=",")
        done += 1


sys.exit(main())
