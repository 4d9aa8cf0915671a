//! From what is written to what it means: topologies, workloads and schemes of one world.

use std::{fmt, path::Path, time::Duration};

use kickass::{signal, silence::SilenceRule};
use rc3_core::{Ladder, TransportConfig, internals::law::Constants, units::Level};
use rc3_text::document::{Fault, flatten, nearest, quoted};
use toml::{Table, Value};

use super::{
    quantity::{BufferSize, Rung, Share},
    run::{Assignment, Hosts, Measure, Mix, Mixed, Queues, Sampling, Scheme},
    spec::{
        Arrivals, Defaults, KickAssSpec, LossLinks, LowPriority, MeasureSpec, MixOf, MixSpec, Mode,
        QueueSpec, RunSpec, SampleSpec, SchemeKind, SchemeSpec, SilenceSpec, Spec, TopologySpec,
        WorkloadSpec,
    },
};
use crate::{
    agent::SchemeId,
    host::Reads,
    random::{self, derive},
    registry::{
        CongestionRequest, Parameters, QueueRequest, Registered, Registry, TopologyRequest, find,
        ignores_priorities, within,
    },
    topology::{Site, Topology},
    workload::{ArrivalProcess, Workload},
};

/// Default of `queue.discipline`.
const DISCIPLINE: &str = "priority";

/// More packets at once are refused: no socket takes them.
const BATCH_MAX: u32 = 64;

/// Receivers that acknowledge less often are refused: their senders would mostly wait for timeouts.
const ACK_EVERY_MAX: u32 = 1000;

/// Whether all registered names in a scenario are known.
pub(super) fn names(spec: &Spec, registry: &Registry) -> Result<(), Fault> {
    find(&registry.topologies, &spec.topology.kind, "topology.kind")?;
    for (key, name) in
        [("discipline", &spec.queue.discipline), ("uplink-discipline", &spec.queue.uplink_discipline)]
    {
        find(&registry.disciplines, name.as_deref().unwrap_or(DISCIPLINE), &format!("queue.{key}"))?;
    }
    for (n, scheme) in spec.scheme.iter().enumerate() {
        find(&registry.congestion, congestion(scheme), &format!("scheme.{n}.congestion"))?;
    }
    Ok(())
}

/// Refuses keys that mean nothing beside the others, and demands those that the others need.
pub(super) fn keys(spec: &Spec, document: &Table, registry: &Registry) -> Result<(), Fault> {
    const TOPOLOGY: [&str; 9] = [
        "kind",
        "rate",
        "rtt",
        "core-rates",
        "without-priorities",
        "hosts-without-priorities",
        "batch",
        "reads",
        "stamps",
    ];
    let kind = find(&registry.topologies, &spec.topology.kind, "topology.kind")?;
    refuse(document, "topology", &[&TOPOLOGY, kind.keys], "this `kind`")?;
    workload_keys(&spec.workload, document, "workload")?;
    for (n, workload) in spec.background.iter().enumerate() {
        workload_keys(workload, document, &format!("background.{n}"))?;
    }
    for (n, scheme) in spec.scheme.iter().enumerate() {
        scheme_keys(scheme, document, &format!("scheme.{n}"))?;
    }
    measure_keys(spec)?;
    queue_keys(spec, document)?;
    if spec.workload.arrivals == Arrivals::One {
        const ONE: &str = "`workload.arrivals = \"one\"`";
        refuse(document, "measure", &[&["repetitions", "seed", "fct"]], ONE)?;
        for n in 0..spec.run.len() {
            refuse(document, &format!("run.{n}"), &[&["name", "scheme", "background"]], ONE)?;
        }
    }
    Ok(())
}

fn measure_keys(spec: &Spec) -> Result<(), Fault> {
    let MeasureSpec { from, warm_up, pair, flows, repetitions, .. } = &spec.measure;
    refuse_if(*repetitions == 0, "measure.repetitions", "is zero, so nothing would be measured")?;
    refuse_if(*flows == Some(0), "measure.flows", "is zero, so nothing would be measured")?;
    refuse_if(from.is_some() && warm_up.is_some(), "measure.warm-up", "means nothing with `measure.from`")?;
    let mut workloads = std::iter::once(&spec.workload).chain(&spec.background);
    let unpaired = *pair && workloads.any(|workload| workload.arrivals == Arrivals::ClosedLoop);
    refuse_if(unpaired, "measure.pair", "runs with `closed-loop` sources have no flows in common")?;
    refuse_if(*pair && spec.runs().len() < 2, "measure.pair", "there is only one run")
}

/// Refuses keys of queues and hosts that mean nothing beside the others.
fn queue_keys(Spec { queue, topology, .. }: &Spec, document: &Table) -> Result<(), Fault> {
    let is_given = |key| given(document, "queue").any(|given| given == key);
    let lost_nowhere = !is_given("loss") && queue.loss_links != LossLinks::Core;
    refuse_if(lost_nowhere, "queue.loss-links", "means nothing without `queue.loss`")?;
    for key in ["kickass-resume", "kickass-silence"] {
        let signals_nothing = is_given(key) && !is_given("kickass");
        refuse_if(signals_nothing, format!("queue.{key}"), "means nothing without `queue.kickass`")?;
    }
    let name = queue.discipline.as_deref().unwrap_or(DISCIPLINE);
    let uplink_name = queue.uplink_discipline.as_deref().unwrap_or(name);
    let alike = |name: &str| format!("means nothing with the discipline `{name}`");
    let share = topology.without_priorities > Share::default();
    refuse_if(share && ignores_priorities(name), "topology.without-priorities", alike(name))?;
    let share = topology.hosts_without_priorities > Share::default();
    let key = "topology.hosts-without-priorities";
    refuse_if(share && ignores_priorities(uplink_name), key, alike(uplink_name))?;
    let drops = queue.low_priority == LowPriority::Drop;
    let nowhere = drops && ignores_priorities(name) && ignores_priorities(uplink_name);
    refuse_if(nowhere, "queue.low-priority", alike(name))?;
    let at_once = topology.stamps && topology.reads.is_none();
    refuse_if(at_once, "topology.stamps", "means nothing without `topology.reads`")
}

/// Refuses printed figures and pictures of what no world simulates. A value that is not swept may be one of another sweep.
pub(super) fn shown(spec: &Spec) -> Result<(), Fault> {
    let runs: Vec<String> = spec.runs().into_iter().map(|run| run.name).collect();
    let cases: Vec<String> = spec.case.iter().map(|case| case.name.clone()).collect();
    let schemes: Vec<String> = spec.scheme.iter().map(|scheme| scheme.name.clone()).collect();
    let swept: Vec<String> = flatten(&spec.sweep).into_iter().map(|(key, _)| key).collect();
    let among = |name: &str, known: &[String], key: String| match known.iter().any(|one| one == name) {
        true => Ok(()),
        false => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            Err(Fault::new(key, format!("`{name}` is not simulated, there are {}", quoted(&known))))
        }
    };
    for (n, expect) in spec.expect.iter().enumerate() {
        let key = |name: &str| format!("expect.{n}.{name}");
        among(&expect.run, &runs, key("run"))?;
        expect.against.iter().try_for_each(|run| among(run, &runs, key("against")))?;
        expect.case.iter().try_for_each(|case| among(case, &cases, key("case")))?;
        expect.scheme.iter().try_for_each(|scheme| among(scheme, &schemes, key("scheme")))?;
        flatten(&expect.at).iter().try_for_each(|(swept_key, _)| among(swept_key, &swept, key("at")))?;
    }
    for (n, picture) in spec.picture.iter().enumerate() {
        let key = |name: &str| format!("picture.{n}.{name}");
        picture.runs.iter().flatten().try_for_each(|run| among(run, &runs, key("runs")))?;
        picture.x.iter().try_for_each(|x| among(x, &swept, key("x")))?;
    }
    Ok(())
}

fn workload_keys(spec: &WorkloadSpec, document: &Table, place: &str) -> Result<(), Fault> {
    let (needed, others): (&[&str], &[&str]) = match spec.arrivals {
        Arrivals::Poisson => (&["sizes", "load"], &["from", "to", "writes", "give-up"]),
        Arrivals::ClosedLoop => (&["closed-loop", "sizes"], &["from", "to", "writes", "give-up"]),
        Arrivals::Csv => (&["file"], &["writes", "give-up"]),
        Arrivals::List => (&["flows"], &["writes", "give-up"]),
        Arrivals::One => (&["size"], &["taught-at", "taught-elsewhere", "rate-change", "writes"]),
        Arrivals::Long => (&["count"], &[]),
        Arrivals::Short => (&["load"], &[]),
    };
    refuse(document, place, &[&["arrivals"], needed, others], "these `arrivals`")?;
    let untaught = spec.taught_elsewhere && spec.taught_at.is_none();
    refuse_if(untaught, format!("{place}.taught-elsewhere"), "means nothing without `taught-at`")?;
    match needed.iter().find(|key| !given(document, place).any(|given| given == **key)) {
        Some(key) => Err(Fault::new(place, format!("this kind of `arrivals` needs the key `{key}`"))),
        None => Ok(()),
    }
}

fn scheme_keys(spec: &SchemeSpec, document: &Table, place: &str) -> Result<(), Fault> {
    const ALL: [&str; 3] = ["name", "kind", "level"];
    const LOOPS: [&str; 5] = ["defaults", "congestion", "initial-window", "real-crypto", "parameters"];
    const RC3: [&str; 3] = ["mode", "constants", "rlp-rate"];
    const PAPERS: [&str; 2] = ["ack-every", "paced"];
    let library = spec.defaults == Defaults::Library;
    if library {
        refuse(document, place, &[&ALL, &LOOPS, &RC3], "the library's `defaults`")?;
    }
    let known: &[&[&str]] = match spec.kind {
        SchemeKind::Rcp => &[&ALL[..2]],
        SchemeKind::Plain => &[&ALL, &LOOPS, &PAPERS],
        SchemeKind::Rc3 if library => &[&ALL, &LOOPS, &RC3],
        SchemeKind::Rc3 => &[&ALL, &LOOPS, &RC3[..2], &PAPERS, &["ladder"]],
    };
    refuse(document, place, known, "this `kind`")
}

/// Refuses a key for this reason, if something holds.
pub(super) fn refuse_if(holds: bool, key: impl Into<String>, reason: impl fmt::Display) -> Result<(), Fault> {
    if holds { Err(Fault::new(key, reason)) } else { Ok(()) }
}

/// Refuses the number of a router that a network lacks.
pub(super) fn router_is_there(
    router: usize,
    topology: &Topology,
    key: impl Into<String>,
) -> Result<(), Fault> {
    let count = topology.routers.len();
    refuse_if(router >= count, key, format_args!("there is no router {router}, only {count} of them"))
}

/// Refuses keys of a table that are not among those with a meaning.
fn refuse(document: &Table, place: &str, known: &[&[&str]], beside: &str) -> Result<(), Fault> {
    match given(document, place).find(|key| !known.iter().any(|known| known.contains(key))) {
        Some(key) => Err(Fault::new(format!("{place}.{key}"), format!("means nothing with {beside}"))),
        None => Ok(()),
    }
}

/// The keys of a table at a place such as `scheme.0`.
fn given<'a>(document: &'a Table, place: &str) -> impl Iterator<Item = &'a str> {
    let (name, element) = place.split_once('.').unwrap_or((place, ""));
    let value = document.get(name);
    let table = match element.parse::<usize>() {
        Ok(n) => value.and_then(|list| list.get(n)),
        Err(_) => value,
    };
    table.and_then(Value::as_table).into_iter().flatten().map(|(key, _)| key.as_str())
}

/// The name of a scheme's congestion controller.
fn congestion(spec: &SchemeSpec) -> &str {
    spec.congestion.as_deref().unwrap_or(match spec.defaults {
        Defaults::Papers => "newreno",
        Defaults::Library => "cubic",
    })
}

/// The network, with everything random about it drawn by `seed`; paths are relative to `folder`.
pub(super) fn topology(
    spec: &TopologySpec,
    registry: &Registry,
    folder: &Path,
    seed: u64,
) -> Result<Topology, Fault> {
    let kind = find(&registry.topologies, &spec.kind, "topology.kind")?;
    let request = TopologyRequest { spec, folder, seed: derive(seed, random::TOPOLOGY) };
    let mut topology = (kind.topology)(&request).map_err(|fault| below("topology", fault))?;
    if let Some((low, high)) = spec.core_rates {
        topology.draw_core_rates(low, high, derive(seed, random::CORE_RATES));
    }
    if let Some((first, last)) = spec.access_rtts {
        topology.spread_access(0, first, last);
    }
    topology.withdraw_priorities(spec.without_priorities.get(), derive(seed, random::WITHOUT_PRIORITIES));
    topology.withdraw_priorities_of_hosts(spec.hosts_without_priorities.get());
    Ok(topology)
}

/// The hosts of a network.
pub(super) fn hosts(spec: &TopologySpec) -> Result<Hosts, Fault> {
    let batch = within(spec.batch.unwrap_or(1), 1..=BATCH_MAX, "topology.batch")?;
    let reads = Reads { every: spec.reads.unwrap_or_default(), stamped: spec.stamps };
    Ok(Hosts { batch: batch as usize, reads })
}

/// A fault of a key that is relative to `table`.
fn below(table: &str, fault: Fault) -> Fault {
    match fault.key.is_empty() {
        true => Fault { key: table.to_owned(), ..fault },
        false => Fault { key: format!("{table}.{}", fault.key), ..fault },
    }
}

/// The queues of a network.
pub(super) fn queues(spec: &QueueSpec, registry: &Registry, topology: &Topology) -> Result<Queues, Fault> {
    let silence = match spec.kickass_silence {
        SilenceSpec::Threshold => SilenceRule::Threshold,
        SilenceSpec::Ignored => SilenceRule::Ignored,
    };
    let mut signals = signal::SignalConfig { silence, ..signal::SignalConfig::default() };
    spec.kickass_resume.inspect(|round_trips| signals.queue_resume = *round_trips);
    let bdp = topology.nominal.bdp();
    if let KickAssSpec::Routers(routers) = &spec.kickass {
        routers.iter().try_for_each(|router| router_is_there(*router, topology, "queue.kickass"))?;
    }
    let uplink_backlog = spec.uplink_backlog.and_then(|backlog| backlog.bytes(bdp));
    refuse_if(uplink_backlog == Some(0), "queue.uplink-backlog", "is zero, so RLP would never send")?;
    let name = spec.discipline.as_deref().unwrap_or(DISCIPLINE);
    let uplink_name = spec.uplink_discipline.as_deref().unwrap_or(name);
    let registered = |this: &str, key| {
        let entry = find(&registry.disciplines, this, key)?;
        let parameters = if this == name { spec.parameters.clone() } else { Parameters::default() };
        Ok(Registered { name: this.to_owned(), parameters, entry })
    };
    let limit =
        |buffer: BufferSize, min, key| buffer.limit(bdp, min).map_err(|message| Fault::new(key, message));
    let queues = Queues {
        discipline: registered(name, "queue.discipline")?,
        uplink_discipline: registered(uplink_name, "queue.uplink-discipline")?,
        buffer: limit(spec.buffer, spec.buffer_min, "queue.buffer")?,
        uplink_buffer: limit(spec.uplink_buffer.unwrap_or(BufferSize::Unlimited), 0, "queue.uplink-buffer")?,
        uplink_backlog,
        loss: spec.loss.get(),
        loss_links: spec.loss_links,
        jitter: spec.jitter,
        aggregation: spec.aggregation,
        low_priority: spec.low_priority,
        kickass: spec.kickass.clone(),
        signals,
    };
    for (discipline, limit, buffer) in [
        (&queues.discipline, queues.buffer, "buffer"),
        (&queues.uplink_discipline, queues.uplink_buffer, "uplink-buffer"),
    ] {
        let rate = Some(topology.nominal.rate);
        let request = QueueRequest {
            parameters: &discipline.parameters,
            limit,
            rate,
            priorities: true,
            low_priority: queues.low_priority,
            seed: 0,
        };
        (discipline.entry.queue)(&request).map_err(|fault| match fault.key.as_str() {
            "buffer" => below("queue", Fault { key: buffer.to_owned(), ..fault }),
            _ => below("queue", fault),
        })?;
    }
    Ok(queues)
}

/// How many flows are measured, and how many before them are not.
pub(super) fn measure(
    spec: &MeasureSpec,
    workload: &Workload,
    topology: &Topology,
) -> Result<Measure, Fault> {
    let default = match &workload.arrivals {
        ArrivalProcess::Poisson(_) => 6000,
        ArrivalProcess::ClosedLoop(sources) => u64::from(sources.sources),
        _ => 0,
    };
    let warm_up = spec.warm_up.unwrap_or_else(|| if spec.from.is_some() { 0 } else { default });
    let is_over = spec.from.zip(spec.until).is_some_and(|(from, until)| until <= from);
    refuse_if(is_over, "measure.from", "not before `measure.until`, so no flow would be measured")?;
    if let Some(flows) = workload.count() {
        let message =
            format_args!("{warm_up} flows before the measured ones, but the workload has only {flows}");
        refuse_if(flows <= warm_up, "measure.warm-up", message)?;
    }
    refuse_if(spec.max_in_flight == 0, "measure.max-in-flight", "no flow could start")?;
    let sample = spec.sample.as_ref().map(|sample| sampling(sample, topology)).transpose()?;
    Ok(Measure {
        flows: spec.flows(),
        warm_up,
        from: spec.from.unwrap_or_default(),
        fct: spec.fct,
        until: spec.until,
        pair: spec.pair,
        max_in_flight: spec.max_in_flight,
        sample,
        window: None,
    })
}

fn sampling(spec: &SampleSpec, topology: &Topology) -> Result<Sampling, Fault> {
    let site: Site = spec.link.parse().map_err(|error| Fault::new("measure.sample.link", error))?;
    refuse_if(site.link(topology).is_none(), "measure.sample.link", format!("there is no link {site}"))?;
    let every = spec.every.unwrap_or(Duration::from_millis(100));
    refuse_if(every.is_zero(), "measure.sample.every", "not above zero")?;
    Ok(Sampling { site, every })
}

/// Refuses what a world with one flow does not do, and what only such a world does.
pub(super) fn one(spec: &Spec, queues: &Queues) -> Result<(), Fault> {
    let beside = |arrivals| matches!(arrivals, Arrivals::Long | Arrivals::Short);
    let others = spec.background.iter().enumerate();
    if spec.workload.arrivals != Arrivals::One {
        let mut all = std::iter::once(("workload".to_owned(), &spec.workload))
            .chain(others.map(|(n, workload)| (format!("background.{n}"), workload)));
        let message = "only with `workload.arrivals = \"one\"`, beside or as the flow that is measured";
        return all.try_for_each(|(key, workload)| {
            let is_of_one = beside(workload.arrivals) || workload.arrivals == Arrivals::One;
            refuse_if(is_of_one, format!("{key}.arrivals"), message)
        });
    }
    refuse_if(spec.topology.kind != "bottleneck", "topology.kind", "one flow needs the kind `bottleneck`")?;
    for (n, workload) in others {
        let key = |name: &str| format!("background.{n}.{name}");
        let (count, load) = (workload.count.unwrap_or(1), workload.load.map_or(0.5, Share::get));
        let message = "beside one flow there are flows of one kind, `long` or `short`";
        refuse_if(n > 0 || !beside(workload.arrivals), key("arrivals"), message)?;
        within(count, 1..=64, key("count"))?;
        refuse_if(!(0.0 < load && load < 1.0), key("load"), "not above 0 and below 1")?;
        let message =
            format_args!("{count} flows beside the measured one need {} hosts at each side", count + 1);
        refuse_if(spec.topology.hosts.unwrap_or(10) <= count, "topology.hosts", message)?;
    }
    let is_policer = queues.discipline.entry.is_policer;
    for (key, factor) in [("taught-at", spec.workload.taught_at), ("rate-change", spec.workload.rate_change)]
    {
        let changes = is_policer && factor.is_some();
        refuse_if(changes, format!("workload.{key}"), "the rate of a policer does not change")?;
    }
    let alone = spec.workload.taught_elsewhere && spec.topology.hosts.unwrap_or(10) < 2;
    refuse_if(alone, "topology.hosts", "there is no other host to teach the sender")?;
    refuse_if(spec.workload.size == Some(0), "workload.size", "a flow without bytes")
}

/// All schemes, whose names must differ.
pub(super) fn schemes(specs: &[SchemeSpec], registry: &Registry) -> Result<Vec<Scheme>, Fault> {
    refuse_if(specs.is_empty(), "scheme", "no scheme carries the flows, write `[[scheme]]`")?;
    refuse_if(specs.len() > usize::from(u16::MAX), "scheme", format!("more than {} schemes", u16::MAX))?;
    let mut schemes: Vec<Scheme> = Vec::with_capacity(specs.len());
    for (n, spec) in specs.iter().enumerate() {
        let key = format!("scheme.{n}");
        let is_known = schemes.iter().any(|scheme| scheme.name == spec.name);
        refuse_if(is_known, format!("{key}.name"), format_args!("there is another `{}`", spec.name))?;
        schemes.push(scheme(spec, registry, &key)?);
    }
    Ok(schemes)
}

fn scheme(spec: &SchemeSpec, registry: &Registry, key: &str) -> Result<Scheme, Fault> {
    let rc3 = spec.kind == SchemeKind::Rc3;
    let library = spec.defaults == Defaults::Library;
    let initial_window = spec.initial_window.or_else(|| (!library).then_some(4));
    if let Some(packets) = initial_window {
        within(packets, 1..=1_000_000, format!("{key}.initial-window"))?;
    }
    let mode = spec.mode.unwrap_or(match (rc3, library) {
        (false, _) => Mode::Off,
        (true, false) => Mode::Trust,
        (true, true) => Mode::Guard,
    });
    let no_law = mode != Mode::Guard && !spec.constants.is_empty();
    refuse_if(no_law, format!("{key}.constants"), "means nothing without `mode = \"guard\"`")?;
    let mut constants = Constants::DEFAULT;
    for (name, value) in &spec.constants {
        let set = constants.set(name, *value);
        set.map_err(|reason| Fault::new(format!("{key}.constants.{name}"), reason))?;
    }
    let name = congestion(spec);
    let entry = find(&registry.congestion, name, &format!("{key}.congestion"))?;
    let request = CongestionRequest { parameters: &spec.parameters, seed: 0, remembered: None };
    (entry.configure)(&request, &mut TransportConfig::default()).map_err(|fault| below(key, fault))?;
    let congestion = Registered { name: name.to_owned(), parameters: spec.parameters.clone(), entry };
    let level = Level::new(spec.level)
        .ok_or_else(|| Fault::new(format!("{key}.level"), format!("not within 0 to {}", Level::MAX)))?;
    let default = [Rung::Packets(40), Rung::Packets(400), Rung::Packets(4000), Rung::Rest];
    let rungs = spec.ladder.as_deref().unwrap_or(&default);
    let ladder = ladder(rungs).map_err(|message| Fault::new(format!("{key}.ladder"), message))?;
    Ok(Scheme {
        name: spec.name.clone(),
        kind: spec.kind,
        defaults: spec.defaults,
        rlp_rate: spec.rlp_rate.unwrap_or_default(),
        mode,
        congestion,
        initial_window,
        ack_every: within(spec.ack_every.unwrap_or(1), 1..=ACK_EVERY_MAX, format!("{key}.ack-every"))?,
        paced: spec.paced.unwrap_or(false),
        ladder,
        constants: (!spec.constants.is_empty()).then_some(constants),
        level,
        real_crypto: spec.real_crypto,
    })
}

fn ladder(rungs: &[Rung]) -> Result<Ladder, String> {
    let counts = rungs.iter().enumerate().map(|(n, rung)| match rung {
        Rung::Packets(packets) => Ok(*packets),
        Rung::Rest if n + 1 == rungs.len() => Ok(u64::MAX),
        Rung::Rest => Err("only the last level takes the rest".to_owned()),
    });
    Ladder::new(&counts.collect::<Result<Vec<_>, _>>()?).map_err(|error| error.to_string())
}

/// Who uses which of the schemes in run `n`.
pub(super) fn assignment(
    run: &RunSpec,
    n: usize,
    schemes: &[Scheme],
    topology: &Topology,
    seed: u64,
) -> Result<Assignment, Fault> {
    let find = |name: &str, key: &str| find_scheme(name, &format!("run.{n}.{key}"), schemes);
    let scheme = find(&run.scheme, "scheme")?;
    let background = run.background.as_ref().map(|name| find(name, "background")).transpose()?;
    let mix = run.mix.as_ref().map(|mix| {
        Ok::<_, Fault>(Mix { scheme: find(&mix.scheme, "mix.scheme")?, of: mixed(mix, topology, seed) })
    });
    Ok(Assignment { scheme, background: background.unwrap_or(scheme), mix: mix.transpose()? })
}

fn mixed(mix: &MixSpec, topology: &Topology, seed: u64) -> Mixed {
    let share = mix.share.get();
    match mix.of {
        MixOf::Flows => Mixed::Flows { share, seed: derive(seed, random::MIX) },
        MixOf::Hosts => Mixed::Hosts(topology.first_hosts(share)),
    }
}

fn find_scheme(name: &str, key: &str, schemes: &[Scheme]) -> Result<SchemeId, Fault> {
    if let Some(at) = schemes.iter().position(|scheme| scheme.name == name) {
        return Ok(SchemeId(u16::try_from(at).expect("counted before")));
    }
    let known: Vec<&str> = schemes.iter().map(|scheme| scheme.name.as_str()).collect();
    let hint = match nearest(name, &known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("there are {}", quoted(&known)),
    };
    Err(Fault::new(key, format!("there is no scheme `{name}`, {hint}")))
}
