-- Machines that miss a limit more often than their peers: those with the same kernel, hardware, BIOS, load
-- and limit. A machine is named if even a lower bound of its probability is above an upper bound of that of
-- all its peers together. Both bounds have the confidence 1 - 0.05 / (2 m) where m machines are compared in
-- the whole table, so that no machine is named without a reason in 95 of 100 tables.
-- Misses and cycles are divided by the dispersion within runs, how many misses come together; without a miss a run
-- tells of them by its highest samples.
-- Lower: (2 k + L - sqrt(8 k L + L^2)) / 2 n (Chernoff: P(X >= k) is at most exp(-(k - np)^2 / (k + np))).
with once as (
    select runs.kernel, runs.hardware, coalesce(runs.bios, '') as bios, runs.load, runs.source, requirements.limit_ns,
           runs.machine, runs.run, max(requirements.cycles) as cycles, max(requirements.misses) as misses,
           max(requirements.dispersion) as dispersion
    from requirements join runs on requirements.run = runs.run
    group by runs.kernel, runs.hardware, coalesce(runs.bios, ''), runs.load, runs.source, requirements.limit_ns,
             runs.machine, runs.run
),
each as (
    select kernel, hardware, bios, load, source, limit_ns, machine, count(*) as runs,
           cast(sum(cycles) as bigint) as cycles, cast(sum(misses) as bigint) as misses,
           sum(misses * dispersion) as weighted, sum(cycles * dispersion) as by_cycles
    from once
    where cycles > 0
    group by kernel, hardware, bios, load, source, limit_ns, machine
),
peers as (
    select each.*,
           count(*) over (partition by kernel, hardware, bios, load, source, limit_ns) as machines,
           sum(weighted) over (partition by kernel, hardware, bios, load, source, limit_ns) - weighted as others_weighted,
           sum(by_cycles) over (partition by kernel, hardware, bios, load, source, limit_ns) - by_cycles as others_by_cycles,
           sum(cycles) over (partition by kernel, hardware, bios, load, source, limit_ns) - cycles as others_cycles,
           sum(misses) over (partition by kernel, hardware, bios, load, source, limit_ns) - misses as others_misses
    from each
),
effective as (
    select peers.*, ln(2 * count(*) over () / 0.05) as l,
           greatest(1.0, case when misses > 0 then weighted / misses else by_cycles / cycles end) as dispersion,
           greatest(1.0, case when others_misses > 0 then others_weighted / others_misses
                              else others_by_cycles / others_cycles end) as others_dispersion
    from peers
    where machines > 1
),
compared as (
    select effective.*, misses / dispersion as k, cycles / dispersion as n,
           others_misses / others_dispersion as others_k, others_cycles / others_dispersion as others_n
    from effective
),
bounded as (
    select compared.*,
           case when k >= l then (2 * k + l - sqrt(8 * k * l + l * l)) / (2 * n) else 0.0 end as lower,
           least(1.0, (others_k + l + sqrt(l * l + 2 * others_k * l)) / others_n) as peers_upper
    from compared
)
select machine, kernel, hardware, bios, load, source, limit_ns, runs, cycles, misses,
       misses / cast(cycles as double) as share, lower,
       others_misses / cast(others_cycles as double) as peers_share, peers_upper
from bounded
where lower > peers_upper
order by lower / peers_upper desc, machine
