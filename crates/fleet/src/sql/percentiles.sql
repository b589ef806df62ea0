-- Percentiles of all runs together, by kernel, hardware, BIOS and load. Histograms are added: a percentile
-- is the upper end of a bucket, at most 1/128 above the true one. It is left out where fewer than ten
-- samples lie beyond it. The maximum is exact.
with grouped as (
    select run, machine, kernel, hardware, coalesce(bios, '') as bios, load, source, samples, maximum_ns,
           dense_rank() over (order by kernel, hardware, coalesce(bios, ''), load, source) as kind
    from runs
),
names as (
    select kind, min(kernel) as kernel, min(hardware) as hardware, min(bios) as bios, min(load) as load,
           min(source) as source, count(*) as runs, count(distinct machine) as machines,
           cast(sum(samples) as bigint) as samples, max(maximum_ns) as maximum_ns
    from grouped
    group by kind
),
members as (select run, kind from grouped),
added as (
    select members.kind, histograms.bucket, cast(sum(histograms.count) as bigint) as n
    from histograms join members on histograms.run = members.run
    group by members.kind, histograms.bucket
),
ranked as (
    select kind, bucket,
           sum(n) over (partition by kind order by bucket rows between unbounded preceding and current row) as upto,
           sum(n) over (partition by kind) as total
    from added
),
cut as (
    select kind,
           min(case when upto >= total * 0.5 then bucket end) as b50,
           min(case when upto >= total * 0.99 and total * 0.01 >= 10 then bucket end) as b99,
           min(case when upto >= total * 0.999 and total * 0.001 >= 10 then bucket end) as b999,
           min(case when upto >= total * 0.9999 and total * 0.0001 >= 10 then bucket end) as b9999
    from ranked
    group by kind
)
select names.kernel, names.hardware, names.bios, names.load, names.source, names.runs, names.machines, names.samples,
       case when p50.high_ns < names.maximum_ns then p50.high_ns when p50.high_ns is not null then names.maximum_ns end as p50_ns,
       case when p99.high_ns < names.maximum_ns then p99.high_ns when p99.high_ns is not null then names.maximum_ns end as p99_ns,
       case when p999.high_ns < names.maximum_ns then p999.high_ns when p999.high_ns is not null then names.maximum_ns end as p999_ns,
       case when p9999.high_ns < names.maximum_ns then p9999.high_ns when p9999.high_ns is not null then names.maximum_ns end as p9999_ns,
       names.maximum_ns
from names
left join cut on cut.kind = names.kind
left join buckets p50 on p50.bucket = cut.b50
left join buckets p99 on p99.bucket = cut.b99
left join buckets p999 on p999.bucket = cut.b999
left join buckets p9999 on p9999.bucket = cut.b9999
order by names.kernel, names.hardware, names.bios, names.load, names.source
