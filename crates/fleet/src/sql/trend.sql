-- Each machine day by day: its runs and verdicts, its worst wake-up, and misses of the strictest limit.
with strictest as (
    select run, min(limit_ns) as limit_ns from requirements group by run
),
missed as (
    select requirements.run, max(requirements.limit_ns) as limit_ns, max(requirements.cycles) as cycles,
           max(requirements.misses) as misses
    from requirements join strictest
      on requirements.run = strictest.run and requirements.limit_ns = strictest.limit_ns
    group by requirements.run
)
select runs.machine, runs.day, runs.kernel, runs.load, count(*) as runs,
       cast(sum(case when runs.verdict = 'PASS' then 1 else 0 end) as bigint) as passed,
       cast(sum(case when runs.verdict = 'FAIL' then 1 else 0 end) as bigint) as failed,
       max(runs.maximum_ns) as maximum_ns, min(missed.limit_ns) as limit_ns,
       cast(sum(missed.misses) as bigint) as misses, cast(sum(missed.cycles) as bigint) as cycles
from runs left join missed on runs.run = missed.run
group by runs.machine, runs.day, runs.kernel, runs.load
order by runs.machine, runs.day, runs.kernel, runs.load
