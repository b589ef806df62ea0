-- The runs with the worst wake-ups, and where their records are.
select machine, started, kernel, load, source, verdict, maximum_ns, samples, record
from runs
where maximum_ns is not null
order by maximum_ns desc, started, machine
limit 20
