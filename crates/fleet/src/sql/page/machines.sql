-- The machines with the most failed runs, then those with the worst wake-ups.
select machine, count(*) as runs, count(*) filter (where verdict = 'FAIL') as failed,
       max(maximum_ns) as maximum_ns
from runs
group by machine
order by failed desc, maximum_ns desc nulls last, machine
limit 40
