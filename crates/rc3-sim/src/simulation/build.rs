//! From a run to its world: links, queues and hosts.

use std::{sync::Arc, time::Duration};

use rc3_core::{
    AckFrequencyConfig, RlpMode, TransportConfig, VarInt, internals::law::set_constants, units::Rate,
};

use super::SimulationError;
use crate::{
    Crypto, DropTail, Impairments, KickAssQueue, LinkConfig,
    agent::{Agent, HostId},
    host::{Host, HostConfig},
    random::{LINKS, UPLINKS, derive},
    rcp::{self, RcpQueue},
    registry::{CongestionRequest, QueueRequest},
    scenario::{self, Defaults, DirectionsSpec, KickAssSpec, LossLinks, Mode, RlpRate, Run, SchemeKind},
    topology::Topology,
    world::{LinkId, ParcelQueue, World},
};

/// Bytes of the application in a full packet: a TCP segment of an Ethernet frame.
const SEGMENT: u16 = 1460;

/// Round trip assumed before the first measurement (RFC 9002 §6.2.2). A first packet is sent again after three of them, as by
/// TCP (RFC 2988 §2) in the papers' simulator.
const INITIAL_RTT: Duration = Duration::from_secs(1);

/// The world of a run, and the uplink of each host.
pub(super) fn world(run: &Run) -> Result<(World, Vec<LinkId>), SimulationError> {
    let topology = &run.topology;
    let builder = Builder { run, rcp: uses_rcp(run)? };
    let routes = topology.routes();
    let uplink = |host: HostId| LinkId(2 * host.0);
    let cores = 2 * topology.hosts.len() as u32;
    let mut world = World::new(Box::new(move |from, to| {
        let path = routes.path(from, to);
        let cores = path.into_iter().map(|step| LinkId(cores + step.index() as u32));
        std::iter::once(uplink(from)).chain(cores).chain([LinkId(uplink(to).0 + 1)]).collect()
    }));
    for site in &topology.hosts {
        let link = |rate, links: u32| LinkConfig {
            rate,
            delay: site.access.delay,
            impairments: Impairments::loss(match run.queues.loss_links {
                LossLinks::Core => 0.0,
                LossLinks::All => run.queues.loss,
            }),
            seed: derive(run.seed, UPLINKS + u64::from(links)),
            ..LinkConfig::default()
        };
        let up = LinkConfig { overhead: site.access.overhead, ..link(site.access.uplink, world.links()) };
        let seed = builder.queue_seed(&world);
        let queue = builder.queue(&world, LinkStart::Host(site.priorities), up.rate, seed)?;
        world.add_link(up, queue);
        let down = link(site.access.downlink, world.links());
        let seed = builder.queue_seed(&world);
        let queue = match down.rate {
            Some(_) => builder.queue(&world, LinkStart::Router(site.router), down.rate, seed)?,
            // Nothing ever waits.
            None => Box::new(DropTail::new(u64::MAX)),
        };
        world.add_link(down, queue);
    }
    for (at, core) in topology.cores.iter().enumerate() {
        for (direction, from) in [core.a, core.b].into_iter().enumerate() {
            let there = core.a.cmp(&core.b).is_lt() == (direction == 0);
            let of = |both: DirectionsSpec| if there { both.there } else { both.back };
            let mut impairments = Impairments::loss(run.queues.loss);
            impairments.jitter.fill(of(run.queues.jitter));
            let config = LinkConfig {
                rate: Some(builder.behind(core.rate)),
                delay: core.delay,
                aggregation: of(run.queues.aggregation),
                impairments,
                seed: match run.one() {
                    Some(_) => derive(run.seed, direction as u64),
                    None => derive(run.seed, LINKS + (2 * at + direction) as u64),
                },
                ..LinkConfig::default()
            };
            let seed = if run.one().is_some() { config.seed } else { builder.queue_seed(&world) };
            let queue = builder.queue(&world, LinkStart::Router(from), Some(core.rate), seed)?;
            world.add_link(config, queue);
        }
    }
    let uplinks: Vec<LinkId> = (0..topology.hosts.len()).map(|host| uplink(HostId(host as u32))).collect();
    let mut agents = builder.agents(topology)?;
    for &uplink in &uplinks {
        world.add_host(agents(), uplink);
    }
    Ok((world, uplinks))
}

/// Whether the hosts of a run use RCP.
fn uses_rcp(run: &Run) -> Result<bool, SimulationError> {
    let mut kinds = run.used().map(|scheme| scheme.kind == SchemeKind::Rcp);
    let first = kinds.next().unwrap_or(false);
    match kinds.all(|kind| kind == first) {
        true => Ok(first),
        false => Err(SimulationError::Mixed(run.label.run.clone())),
    }
}

/// Where a link begins: at a host whose queue knows priorities or not, or at a router.
#[derive(Clone, Copy)]
enum LinkStart {
    Host(bool),
    Router(usize),
}

struct Builder<'a> {
    run: &'a Run,
    rcp: bool,
}

impl Builder<'_> {
    /// The seed of the queue of the next link.
    fn queue_seed(&self, world: &World) -> u64 {
        derive(self.run.seed, u64::from(world.links()) << 32)
    }

    /// The rate of a core link behind a queue that drains at `rate`: what passes a policer goes on at line rate.
    fn behind(&self, rate: Rate) -> Rate {
        let uplink = self.run.topology.hosts.first().and_then(|host| host.access.uplink);
        uplink.filter(|_| self.run.queues.discipline.entry.is_policer).unwrap_or(rate)
    }

    /// The queue of a link that leaves this place.
    fn queue(
        &self,
        world: &World,
        place: LinkStart,
        rate: Option<Rate>,
        seed: u64,
    ) -> Result<ParcelQueue, SimulationError> {
        let queues = &self.run.queues;
        let (discipline, limit, priorities) = match place {
            LinkStart::Host(priorities) => (&queues.uplink_discipline, queues.uplink_buffer, priorities),
            LinkStart::Router(router) => {
                (&queues.discipline, queues.buffer, self.run.topology.routers[router].priorities)
            }
        };
        let (parameters, low_priority) = (&discipline.parameters, queues.low_priority);
        let request = QueueRequest { parameters, limit, rate, priorities, low_priority, seed };
        let queue = (discipline.entry.queue)(&request)
            .map_err(|fault| SimulationError::registered(&discipline.name, fault))?;
        Ok(match rate {
            Some(rate) if self.rcp => {
                let config = kickass::rcp::RcpConfig::default();
                Box::new(RcpQueue::new(queue, config, rate, world.epoch(), seed))
            }
            Some(rate) if self.signals(place) => {
                let signals = self.run.queues.signals.clone();
                Box::new(KickAssQueue::new(queue, signals, rate, world.epoch(), seed))
            }
            _ => queue,
        })
    }

    /// Whether the queues of this router, or of hosts, signal rates.
    fn signals(&self, place: LinkStart) -> bool {
        match (&self.run.queues.kickass, place) {
            (KickAssSpec::All(all), _) => *all,
            (KickAssSpec::Routers(routers), LinkStart::Router(router)) => routers.contains(&router),
            (KickAssSpec::Routers(_), LinkStart::Host(_)) => false,
        }
    }

    /// Makes one host after another.
    fn agents(
        &self,
        topology: &Topology,
    ) -> Result<impl FnMut() -> Box<dyn Agent + Send> + use<>, SimulationError> {
        let rcp = self.rcp;
        let at_once = Arc::new(host_config(self.run)?);
        let late = Arc::new(HostConfig { reads: self.run.hosts.reads, ..(*at_once).clone() });
        let routers: Vec<usize> = topology.hosts.iter().map(|host| host.router).collect();
        let mut ids = (0..).map(HostId).zip(routers);
        Ok(move || {
            let (id, router) = ids.next().expect("called once for each host");
            let config = if router == 0 { &at_once } else { &late };
            match rcp {
                true => Box::new(rcp::RcpHost::default()) as Box<dyn Agent + Send>,
                false => Box::new(Host::new(id, config.clone())) as Box<dyn Agent + Send>,
            }
        })
    }
}

fn host_config(run: &Run) -> Result<HostConfig, SimulationError> {
    let real = run.used().any(|scheme| scheme.real_crypto);
    let crypto = if real { Crypto::Tls } else { Crypto::None };
    // No sender has RLP unless its receiver has.
    let measured = run.scheme();
    let answers = run.used().find(|scheme| scheme.mode != Mode::Off).unwrap_or(measured);
    let receiver = match answers.defaults {
        Defaults::Library => transport(answers, run)?,
        Defaults::Papers => {
            // It accepts RLP from every sender that offers it.
            let mut receiver = common(1);
            receiver.rlp(RlpMode::Trust).initial_rtt(INITIAL_RTT);
            receiver
        }
    };
    let schemes = run.schemes.iter().map(|scheme| transport(scheme, run));
    let schemes = schemes.collect::<Result<Vec<_>, _>>()?;
    let mut config = HostConfig::new(schemes, receiver, crypto, run.seed);
    config.batch = run.hosts.batch;
    config.uplink_backlog = run.queues.uplink_backlog;
    for (scheme, of) in config.schemes.iter_mut().zip(&run.schemes) {
        scheme.shift = of.level.get();
    }
    Ok(config)
}

/// Settings of all connections; the peer acknowledges every `ack_every`-th packet.
fn common(ack_every: u32) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.segment_size(Some(SEGMENT));
    let mut acks = AckFrequencyConfig::default();
    // The threshold counts packets that may stay without an ACK.
    acks.ack_eliciting_threshold(VarInt::from_u32(ack_every - 1));
    config.ack_frequency_config(Some(acks));
    // A flow is one stream; room for more costs memory.
    config.max_concurrent_uni_streams(1_u32.into()).max_concurrent_bidi_streams(0_u32.into());
    config
}

fn transport(scheme: &scenario::Scheme, run: &Run) -> Result<TransportConfig, SimulationError> {
    let mut config = match scheme.defaults {
        Defaults::Papers => common(scheme.ack_every),
        Defaults::Library => TransportConfig::default(),
    };
    config.rlp(match (scheme.kind, scheme.mode) {
        (SchemeKind::Rc3, Mode::Trust) => RlpMode::Trust,
        (SchemeKind::Rc3, Mode::Guard) => RlpMode::Guard,
        _ => RlpMode::Off,
    });
    let nominal = run.topology.nominal;
    let taught_at = run.one().and_then(|one| one.taught_at);
    let remembered = taught_at.map(|factor| (nominal.product() * factor) as u64);
    let congestion = &scheme.congestion;
    let request = CongestionRequest { parameters: &congestion.parameters, seed: run.seed, remembered };
    (congestion.entry.configure)(&request, &mut config)
        .map_err(|fault| SimulationError::registered(&congestion.name, fault))?;
    config.initial_packets(scheme.initial_window.map(|window| u32::try_from(window).unwrap_or(u32::MAX)));
    if let Some(constants) = &scheme.constants {
        set_constants(&mut config, constants.clone());
    }
    match scheme.defaults {
        Defaults::Papers => {
            config.initial_rtt(INITIAL_RTT).paced(scheme.paced).ladder(scheme.ladder);
        }
        Defaults::Library => {
            let card = run.topology.hosts.first().and_then(|host| host.access.uplink);
            config.nic_rate(match scheme.rlp_rate {
                RlpRate::Uplink => card,
                RlpRate::Bottleneck => Some(nominal.rate),
            });
        }
    }
    Ok(config)
}
