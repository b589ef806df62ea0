-- Some machines day by day.
select machine, day, count(*) as runs, count(*) filter (where verdict = 'FAIL') as failed,
       max(maximum_ns) as maximum_ns
from runs
where hex(machine) in (MACHINES)
group by machine, day
order by machine, day
