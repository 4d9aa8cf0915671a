//! A router's queue that runs a rate law and signals the rate by where it fragments packets (Kick-Ass §2).

use std::time::{Duration, Instant};

use kickass::{
    law::RateLaw,
    rcp,
    signal::{Backlog, SignalConfig, Signaller, Withheld},
};
use rc3_core::units::Rate;

use super::ip;
use crate::{
    Queue, Tally, Waiting,
    agent::{Body, Parcel},
    random::{derive, unit},
};

/// Any queue, with Kick-Ass around it.
///
/// The law counts all arrivals of the best level, of any protocol and also those dropped, and learns round trips from
/// indicators. A packet that is fragmented leaves with one more IP header, also on the link behind the queue.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use rc3_core::{Congestion, RlpMode, TransportConfig, units::Rate};
/// use kickass::signal::SignalConfig;
/// use rc3_sim::{Crypto, DropTail, KickAssQueue, LinkConfig};
/// use rc3_sim::{agent::{Flow, HostId}, host::{Host, HostConfig}, world::{LinkId, World}};
///
/// let mut transport = TransportConfig::default();
/// transport.congestion(Congestion::KickAss).rlp(RlpMode::Off);
/// let config = Arc::new(HostConfig::new([transport.clone()], transport, Crypto::None, 1));
/// // Uplink and downlink of each host, in this order; one router in the middle.
/// let mut world = World::new(Box::new(|from, to| [LinkId(2 * from.0), LinkId(2 * to.0 + 1)].into()));
/// let rate = Rate::from_bits_per_second(20_000_000).unwrap();
/// for host in [HostId(0), HostId(1)] {
///     let slow = LinkConfig { rate: Some(rate), delay: Duration::from_millis(20), ..LinkConfig::default() };
///     let (queue, rates, since) = (DropTail::new(200_000), SignalConfig::default(), world.epoch());
///     let queue = KickAssQueue::new(queue, rates, rate, since, host.0.into());
///     let uplink = world.add_link(slow, Box::new(queue));
///     world.add_link(LinkConfig::default(), Box::new(DropTail::new(u64::MAX)));
///     world.add_host(Box::new(Host::new(host, config.clone())), uplink);
/// }
/// world.set_meter(LinkId(0));
/// world.start(&Flow::new(HostId(0), HostId(1), 20_000_000));
/// // The law begins with a twentieth of the link.
/// world.run_until(Duration::from_secs(4));
/// let _ = world.sample();
/// world.run_until(Duration::from_secs(5));
/// let sample = world.sample().unwrap();
/// assert_eq!(sample.flows[0].kickass, Some(true), "it follows the router");
/// // Which gives it the link, and lets nothing wait for long.
/// let rate = 8 * sample.flows[0].bytes;
/// assert!(rate > 19_000_000 && sample.queue_bytes < 10_000, "{sample:?}");
/// assert_eq!(world.link_stats(LinkId(0)).total().dropped.packets, 0);
/// ```
#[derive(Debug)]
pub struct KickAssQueue<Q> {
    queue: Q,
    law: rcp::RcpLaw,
    signaller: Signaller,
}

impl<Q: Queue<Waiting<Parcel>>> KickAssQueue<Q> {
    /// Kick-Ass around `queue`, in front of a link of this capacity that is idle `since` then. The seed shifts the
    /// updates against those of other routers.
    ///
    /// # Panics
    /// See [`rcp::RcpLaw::new`].
    pub fn new(queue: Q, signals: SignalConfig, capacity: Rate, since: Instant, seed: u64) -> Self {
        let law = rcp::RcpConfig::for_codes();
        let first = first_interval(&law, seed);
        let law = rcp::RcpLaw::new(law, capacity.bits_per_second() as f64 / 8.0, since, first);
        Self { queue, law, signaller: Signaller::new(signals, seed) }
    }

    fn advance_law(&mut self, now: Instant) {
        let backlog = Backlog { bytes: self.queue.best_bytes(), limit: self.queue.limit() };
        let silent = self.signaller.advance(now, backlog, RateLaw::rtt(&self.law));
        self.law.set_silent(now, silent);
        self.law.advance(now, self.queue.best_bytes());
    }

    /// Fragments a packet that leaves, if it is to carry a signal.
    fn signal(&mut self, now: Instant, packet: &mut Waiting<Parcel>) -> Result<(), Withheld> {
        if !self.queue.is_best(packet) {
            return Err(Withheld::Level);
        }
        let subject = ip::subject(packet);
        let flow = || ip::flow(packet.payload.payload());
        let code = self.signaller.decide(now, &subject, flow, RateLaw::rate(&self.law))?;
        let Body::Udp { leading, .. } = &mut packet.payload.payload_mut().body else {
            return Err(Withheld::Place);
        };
        *leading = u16::try_from(code.payload_len()).ok();
        packet.size += ip::HEADER;
        // The link carries this header too, and no arrival counts it.
        self.law.on_arrival(ip::HEADER as u64, None);
        Ok(())
    }
}

/// Half to one and a half of the longest interval: what matters is that routers differ.
fn first_interval(config: &rcp::RcpConfig, seed: u64) -> Duration {
    config.interval_max.mul_f64(0.5 + unit(derive(seed, 0)))
}

impl<Q: Queue<Waiting<Parcel>>> Queue<Waiting<Parcel>> for KickAssQueue<Q> {
    fn enqueue(&mut self, now: Instant, packet: Waiting<Parcel>, dropped: &mut dyn FnMut(Waiting<Parcel>)) {
        if self.queue.is_best(&packet) {
            self.advance_law(now);
            let flow = || ip::flow(packet.payload.payload());
            let rtt = self.signaller.on_arrival(&ip::subject(&packet), flow);
            self.law.on_arrival(packet.size as u64, rtt.map(|bucket| bucket.rtt()));
        }
        self.queue.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Waiting<Parcel>)) -> Option<Waiting<Parcel>> {
        self.advance_law(now);
        let mut packet = self.queue.dequeue(now, dropped)?;
        // A packet that cannot carry the signal leaves unchanged.
        let _ = self.signal(now, &mut packet);
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        self.queue.waiting()
    }

    fn limit(&self) -> u64 {
        self.queue.limit()
    }

    fn is_best(&self, packet: &Waiting<Parcel>) -> bool {
        self.queue.is_best(packet)
    }

    fn best_bytes(&self) -> u64 {
        self.queue.best_bytes()
    }
}

#[cfg(test)]
mod tests {
    use kickass::{code::Code, indicator::Bucket, silence::SilenceRule};
    use rc3_core::units::Level;

    use super::*;
    use crate::{
        Contents, DropTail, Link, LinkConfig, Packet, Stamped, StrictPriority,
        agent::{FlowId, HostId, RoutePosition, SchemeId},
    };

    fn rate(megabits: u64) -> Rate {
        Rate::from_bits_per_second(megabits * 1_000_000).unwrap()
    }

    fn parcel(size: usize, level: Level, dont_fragment: bool) -> Packet<Parcel> {
        let contents = Contents::new(&vec![0; size - 28]);
        let body = Body::Udp { ecn: 2, contents, leading: None, dont_fragment };
        let (flow, scheme, progress) = (FlowId(1), SchemeId(0), RoutePosition::default());
        Packet {
            size,
            level,
            payload: Parcel { flow, scheme, from: HostId(0), to: HostId(1), progress, body },
        }
    }

    fn link<Q>(queue: Q, megabits: u64, start: Instant) -> Link<Parcel>
    where
        Q: Queue<Waiting<Parcel>> + Send + 'static,
    {
        link_by(SignalConfig::default(), queue, megabits, start)
    }

    fn link_by<Q>(signals: SignalConfig, queue: Q, megabits: u64, start: Instant) -> Link<Parcel>
    where
        Q: Queue<Waiting<Parcel>> + Send + 'static,
    {
        let queue = KickAssQueue::new(queue, signals, rate(megabits), start, 1);
        Link::new(LinkConfig { rate: Some(rate(megabits)), ..LinkConfig::default() }, queue)
    }

    /// What comes out at the end: size, and payload of the leading fragment.
    fn through(
        link: &mut Link<Parcel>,
        now: Instant,
        packets: Vec<Packet<Parcel>>,
    ) -> Vec<(usize, Option<u16>)> {
        packets.into_iter().for_each(|packet| link.send(now, packet));
        let later = now + Duration::from_secs(1);
        let out = std::iter::from_fn(|| link.poll_packet(later));
        out.map(|packet| match packet.payload.body {
            Body::Udp { leading, .. } => (packet.size, leading),
            Body::Rcp(_) => panic!("nobody speaks RCP"),
        })
        .collect()
    }

    #[test]
    fn a_packet_that_may_be_fragmented_carries_the_rate_and_a_header_more() {
        let start = Instant::now();
        let mut link = link(DropTail::new(30_000), 100, start);
        let packets = [(1500, false), (1500, true), (400, false)];
        let packets = packets.map(|(size, whole)| parcel(size, Level::PRIMARY, whole));
        // RCP begins at a twentieth of the link; 400 bytes are too short for that code.
        let code = Code::nearest(Rate::from_bits_per_second(5_000_000).unwrap()).unwrap();
        let leading = u16::try_from(code.payload_len()).unwrap();
        let out = through(&mut link, start, packets.into());
        assert_eq!(out, [(1520, Some(leading)), (1500, None), (400, None)]);
    }

    #[test]
    fn routers_only_ever_shorten() {
        let start = Instant::now();
        let lengths = |rates: [u64; 2]| {
            let mut packets = vec![parcel(1500, Level::PRIMARY, false)];
            for megabits in rates {
                let mut link = link(DropTail::new(30_000), megabits, start);
                packets.drain(..).for_each(|packet| link.send(start, packet));
                packets.extend(link.poll_packet(start + Duration::from_secs(1)));
            }
            let Body::Udp { leading, .. } = packets[0].payload.body else { panic!("nobody speaks RCP") };
            (packets[0].size, leading)
        };
        let [(fast, up), (slow, down)] = [lengths([10, 100]), lengths([100, 10])];
        assert_eq!(up, down, "the lower rate arrives");
        assert_eq!((fast, slow), (1520, 1540), "three fragments where the second router is the slower one");
    }

    #[test]
    fn only_the_best_level_counts_and_carries_rates() {
        let start = Instant::now();
        let mut link = link(StrictPriority::by_level(30_000), 100, start);
        let low = (0..15).map(|_| parcel(1500, Level::FIRST, false));
        let packets = low.chain([parcel(1500, Level::PRIMARY, false)]).collect();
        let out = through(&mut link, start, packets);
        assert_eq!(out.iter().filter(|(_, leading)| leading.is_some()).count(), 1, "{out:?}");
        // The first was in service when the best one arrived.
        assert!(out[1].1.is_some(), "what waits below is not in its way");
    }

    #[test]
    fn a_queue_above_half_signals_nothing_by_the_papers_rule() {
        let start = Instant::now();
        let signalled_by = |rule| {
            let signals = SignalConfig { silence: rule, queue_resume: 0, ..SignalConfig::default() };
            let mut link = link_by(signals, DropTail::new(30_000), 100, start);
            let packets = (0..18).map(|_| parcel(1500, Level::PRIMARY, false)).collect();
            let out = through(&mut link, start, packets);
            out.iter().map(|(_, leading)| leading.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(signalled_by(SilenceRule::Ignored), [true; 18], "senders had no time to react");
        let signalled = signalled_by(SilenceRule::Threshold);
        // The first left alone, the others when 17, 16, ... waited, of 20 that may.
        assert!(
            signalled[0] && signalled[1..8].iter().all(|yes| !yes) && signalled[8..].iter().all(|yes| *yes),
            "{signalled:?}"
        );
    }

    #[test]
    fn round_trips_are_learnt_from_lengths() {
        let start = Instant::now();
        let bucket = Bucket::of(Duration::from_millis(20));
        let mut queue =
            KickAssQueue::new(DropTail::new(30_000), SignalConfig::default(), rate(100), start, 1);
        let before = queue.law.rtt();
        for nth in 0..1000 {
            let now = start + Duration::from_millis(nth);
            let Packet { size, level, payload } = parcel(bucket.total_len(), Level::PRIMARY, true);
            let mut none = |_| panic!("dropped");
            queue.enqueue(now, Packet { size, level, payload: Stamped::new(now, payload) }, &mut none);
            queue.dequeue(now, &mut none);
        }
        assert!(queue.law.rtt() < before.mul_f64(0.95), "{:?}", queue.law.rtt());
    }
}
