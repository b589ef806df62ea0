-- Who stole the time of late wake-ups, over all machines: the time in the bills of traced runs.
select causes.kind, causes.cause, count(distinct runs.machine) as machines, count(distinct runs.run) as runs,
       cast(sum(causes.bills) as bigint) as bills, cast(sum(causes.tail_ns) as bigint) as tail_ns,
       sum(causes.tail_ns) / cast(sum(sum(causes.tail_ns)) over () as double) as share,
       max(causes.worst_ns) as worst_ns
from causes join runs on causes.run = runs.run
group by causes.kind, causes.cause
having sum(causes.tail_ns) > 0
order by tail_ns desc, causes.cause
