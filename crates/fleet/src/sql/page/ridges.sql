-- Histograms of the kinds of runs with most samples, eight steps for an octave: kernels of the same hardware,
-- BIOS and load, in the order in which they were first measured.
with grouped as (
    select run, kernel, hardware, coalesce(bios, '') as bios, load, source, started, samples,
           dense_rank() over (order by kernel, hardware, coalesce(bios, ''), load, source) as kind
    from runs
),
names as (
    select kind, min(kernel) as kernel, min(hardware) as hardware, min(bios) as bios, min(load) as load,
           min(source) as source, min(started) as since, cast(sum(samples) as bigint) as samples
    from grouped
    group by kind
    having sum(samples) > 0
    order by samples desc, kind
    limit 24
),
members as (select grouped.run, grouped.kind from grouped join names on grouped.kind = names.kind),
added as (
    select members.kind, histograms.bucket // 16 as step, cast(sum(histograms.count) as bigint) as n
    from histograms join members on histograms.run = members.run
    group by members.kind, histograms.bucket // 16
),
steps as (
    select bucket // 16 as step, min(low_ns) as low_ns, max(high_ns) as high_ns from buckets group by bucket // 16
)
select names.kernel, names.hardware, names.bios, names.load, names.source, steps.low_ns, steps.high_ns, added.n
from added join names on added.kind = names.kind join steps on added.step = steps.step
order by names.hardware, names.bios, names.load, names.source, names.since, names.kernel, steps.low_ns
