-- What the dataset has.
select count(*) as runs, count(distinct machine) as machines, count(distinct kernel) as kernels,
       min(started) as first, max(started) as last, cast(coalesce(sum(samples), 0) as bigint) as samples,
       cast(coalesce(sum(skipped), 0) as bigint) as skipped, max(maximum_ns) as maximum_ns,
       cast(coalesce(sum(measured_ns), 0) as double) / 1e9 as measured_s,
       count(*) filter (where verdict = 'PASS') as passed,
       count(*) filter (where verdict = 'FAIL') as failed,
       count(*) filter (where verdict = 'INCONCLUSIVE') as inconclusive,
       (select count(*) from invalid) as invalid
from runs
