-- How often a limit is missed, by kernel, hardware, BIOS and load. `upper` is an upper bound of the
-- probability at 95 %: with k misses in n cycles, both divided by the dispersion, it is
-- (k + L + sqrt(L^2 + 2 k L)) / n, L = ln 20 (Chernoff: P(X <= k) is at most exp(-(np - k)^2 / 2np)). It is up
-- to twice the exact one, and below it only where the dispersion is underestimated. The dispersion, how many
-- misses come together, is the larger of that within runs, weighted by their misses, and that between runs.
-- The bound holds for the machines that were measured, as they were.
with once as (
    select runs.kernel, runs.hardware, coalesce(runs.bios, '') as bios, runs.load, runs.source, requirements.limit_ns,
           runs.machine, runs.run, max(requirements.cycles) as cycles, max(requirements.misses) as misses,
           max(requirements.dispersion) as dispersion
    from requirements join runs on requirements.run = runs.run
    group by runs.kernel, runs.hardware, coalesce(runs.bios, ''), runs.load, runs.source, requirements.limit_ns,
             runs.machine, runs.run
),
shared as (
    select once.*,
           sum(misses) over (partition by kernel, hardware, bios, load, source, limit_ns) * cast(cycles as double)
             / sum(cycles) over (partition by kernel, hardware, bios, load, source, limit_ns) as expected
    from once
    where cycles > 0
),
summed as (
    select kernel, hardware, bios, load, source, limit_ns, count(*) as runs,
           count(distinct machine) as machines,
           cast(sum(case when misses > 0 then 1 else 0 end) as bigint) as runs_with_miss,
           cast(sum(cycles) as bigint) as cycles, cast(sum(misses) as bigint) as misses,
           case when sum(misses) > 0 then sum(misses * dispersion) / sum(misses)
                -- Without a miss a run tells of them by its highest samples.
                else sum(cycles * dispersion) / sum(cycles) end as within_runs,
           case when sum(misses) > 0 and count(*) > 1
                then sum((misses - expected) * (misses - expected) / expected) / (count(*) - 1)
                else 1.0 end as between_runs
    from shared
    group by kernel, hardware, bios, load, source, limit_ns
),
effective as (
    select summed.*, greatest(1.0, within_runs, between_runs) as dispersion from summed
),
bounded as (
    select effective.*, misses / dispersion as k, cycles / dispersion as n from effective
)
select kernel, hardware, bios, load, source, limit_ns, runs, machines, runs_with_miss, cycles, misses, dispersion,
       misses / cast(cycles as double) as share,
       least(1.0, (k + ln(20) + sqrt(ln(20) * ln(20) + 2 * k * ln(20))) / n) as upper
from bounded
order by kernel, hardware, bios, load, source, limit_ns
