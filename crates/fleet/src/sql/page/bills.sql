-- Who stole the time on some machines: the three causes with most time in the bills of traced runs.
with summed as (
    select runs.machine, causes.kind, causes.cause, cast(sum(causes.tail_ns) as bigint) as tail_ns,
           max(causes.worst_ns) as worst_ns
    from causes join runs on causes.run = runs.run
    where hex(runs.machine) in (MACHINES)
    group by runs.machine, causes.kind, causes.cause
    having sum(causes.tail_ns) > 0
),
ranked as (
    select summed.*,
           tail_ns / cast(sum(tail_ns) over (partition by machine) as double) as share,
           row_number() over (partition by machine order by tail_ns desc, cause) as place
    from summed
)
select machine, kind, cause, tail_ns, share, worst_ns
from ranked
where place <= 3
order by machine, place
