-- Some machines, in this order.
select machine, count(*) as runs, count(*) filter (where verdict = 'FAIL') as failed,
       max(maximum_ns) as maximum_ns
from runs
where hex(machine) in (MACHINES)
group by machine
order by list_position([MACHINES], hex(machine))
