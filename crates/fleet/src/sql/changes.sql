-- What changed from one kernel to the next: for the same hardware, BIOS, load and limit, each kernel and the
-- one that was measured before it. `worse` or `better` stands where the bounds of both, each at 97.5 %, don't
-- overlap; else the difference is not shown, which is not the same as none.
with once as (
    select runs.kernel, runs.hardware, coalesce(runs.bios, '') as bios, runs.load, runs.source, requirements.limit_ns,
           runs.run, min(runs.started) as started, max(requirements.cycles) as cycles,
           max(requirements.misses) as misses, max(requirements.dispersion) as dispersion,
           max(runs.maximum_ns) as maximum_ns
    from requirements join runs on requirements.run = runs.run
    group by runs.kernel, runs.hardware, coalesce(runs.bios, ''), runs.load, runs.source, requirements.limit_ns, runs.run
),
each as (
    select kernel, hardware, bios, load, source, limit_ns, min(started) as since, count(*) as runs,
           cast(sum(cycles) as bigint) as cycles, cast(sum(misses) as bigint) as misses,
           greatest(1.0, case when sum(misses) > 0 then sum(misses * dispersion) / sum(misses)
                              else sum(cycles * dispersion) / sum(cycles) end) as dispersion,
           max(maximum_ns) as maximum_ns
    from once
    where cycles > 0
    group by kernel, hardware, bios, load, source, limit_ns
),
effective as (
    select each.*, misses / dispersion as k, cycles / dispersion as n from each
),
bounded as (
    select effective.*,
           case when k >= ln(40) then (2 * k + ln(40) - sqrt(8 * k * ln(40) + ln(40) * ln(40))) / (2 * n)
                else 0.0 end as lower,
           least(1.0, (k + ln(40) + sqrt(ln(40) * ln(40) + 2 * k * ln(40))) / n) as upper
    from effective
),
pairs as (
    select bounded.*,
           lag(kernel) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before,
           lag(cycles) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before_cycles,
           lag(misses) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before_misses,
           lag(lower) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before_lower,
           lag(upper) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before_upper,
           lag(maximum_ns) over (partition by hardware, bios, load, source, limit_ns order by since, kernel) as before_maximum_ns
    from bounded
)
select hardware, bios, load, source, limit_ns, before, kernel,
       before_misses / cast(before_cycles as double) as before_share,
       misses / cast(cycles as double) as share,
       case when lower > before_upper then 'worse' when upper < before_lower then 'better' else 'not shown' end as change,
       before_maximum_ns, maximum_ns
from pairs
where before is not null
order by hardware, bios, load, source, limit_ns, since, kernel
