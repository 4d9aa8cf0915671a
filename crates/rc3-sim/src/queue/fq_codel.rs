//! FQ-CoDel with ECN (RFC 8290).

use std::{collections::VecDeque, time::Instant};

use kickass::queue::{FqCodel as Discipline, FqCodelConfig, Queue as _};

use super::{Dropped, Packet, Queue, Routed};
use crate::Stamped;

/// The discipline of [`kickass::queue`] over packets of a link. Marks go into the ECN bits of UDP datagrams.
#[derive(Debug)]
pub struct FqCodel<T> {
    discipline: Discipline<Packet<Stamped<T>>>,
    /// Dropped by CoDel when packets were taken out, and not told yet.
    dropped: VecDeque<Packet<Stamped<T>>>,
}

impl<T: Routed> FqCodel<T> {
    /// An empty queue.
    ///
    /// # Panics
    /// As [`Discipline::new`].
    pub fn new(config: FqCodelConfig) -> Self {
        Self { discipline: Discipline::new(config), dropped: VecDeque::new() }
    }
}

impl<T: Routed> Queue<Stamped<T>> for FqCodel<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<Stamped<T>>) -> Dropped<Stamped<T>> {
        let mut lost = Vec::new();
        self.discipline.enqueue(now, packet, &mut |packet| lost.push(packet));
        // From the head of the fattest flow, whosever arrival it was.
        let mut lost = lost.into_iter();
        match lost.next() {
            None => Dropped::Nothing,
            Some(first) => Dropped::PushedOut { first, rest: lost.collect() },
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<Stamped<T>>> {
        let dropped = &mut self.dropped;
        self.discipline.dequeue(now, &mut |packet| dropped.push_back(packet))
    }

    fn bytes(&self) -> u64 {
        self.discipline.bytes()
    }

    fn len(&self) -> usize {
        self.discipline.packets()
    }

    fn poll_dropped(&mut self) -> Option<Packet<Stamped<T>>> {
        self.dropped.pop_front()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use rc3_core::units::{Level, Rate};

    use super::*;
    use crate::{
        Contents, Link, LinkConfig,
        agent::{Body, FlowId, HostId, Parcel, Progress, SchemeId},
    };

    pub(in crate::queue) fn parcel(flow: u32, ecn: u8) -> Packet<Parcel> {
        let body = Body::Udp { ecn, contents: Contents::new(&[0; 1472]), leading: None, dont_fragment: true };
        let (flow, scheme, progress) = (FlowId(flow), SchemeId(0), Progress::default());
        let payload = Parcel { flow, scheme, from: HostId(0), to: HostId(1), progress, body };
        Packet { size: 1500, level: Level::PRIMARY, payload }
    }

    /// Twice as much as the link of 12 Mbit/s takes, for half a second; what came of it.
    fn overload(ecn: u8) -> (Link<Parcel>, Vec<Parcel>) {
        let start = Instant::now();
        let rate = Rate::from_bits_per_second(12_000_000);
        let queue = FqCodel::new(FqCodelConfig::default());
        let mut link = Link::new(LinkConfig { rate, ..LinkConfig::default() }, queue);
        let mut out = Vec::new();
        for nth in 0..1000 {
            let now = start + Duration::from_micros(500) * nth;
            link.send(now, parcel(0, ecn));
            // A sparse one among them.
            if nth % 100 == 50 {
                link.send(now, parcel(1, ecn));
            }
            out.extend(std::iter::from_fn(|| link.poll_output(now)));
        }
        let end = start + Duration::from_secs(10);
        out.extend(std::iter::from_fn(|| link.poll_output(end)));
        (link, out)
    }

    #[test]
    fn what_waits_for_too_long_is_marked_where_that_is_understood_and_else_dropped() {
        for ecn in [0, 2] {
            let (link, out) = overload(ecn);
            let total = link.stats().total();
            assert_eq!(total.dropped.packets + out.len() as u64, 1010, "each is either told or delivered");
            let is_marked = |parcel: &&Parcel| matches!(parcel.body, Body::Udp { ecn: 3, .. });
            let marked = out.iter().filter(is_marked).count() as u64;
            let (signals, none) =
                if ecn == 0 { (total.dropped.packets, marked) } else { (marked, total.dropped.packets) };
            assert!(signals > 5 && none == 0, "ecn {ecn}: {signals} and {none}");
        }
    }

    #[test]
    fn both_loops_of_a_connection_are_one_flow() {
        let now = Instant::now();
        let mut queue = FqCodel::new(FqCodelConfig::default());
        for level in [Level::FIRST, Level::PRIMARY].repeat(3) {
            let Packet { size, payload, .. } = parcel(0, 0);
            let packet = Packet { size, level, payload: Stamped::new(now, payload) };
            assert!(matches!(queue.enqueue(now, packet), Dropped::Nothing));
        }
        let levels: Vec<_> = std::iter::from_fn(|| queue.dequeue(now)).map(|packet| packet.level).collect();
        assert_eq!(levels, [Level::FIRST, Level::PRIMARY].repeat(3), "in order of arrival");
    }

    #[test]
    fn a_sparse_flow_does_not_wait_behind_a_fat_one() {
        let (_, out) = overload(0);
        let last = out.iter().rposition(|parcel| parcel.flow == FlowId(1)).unwrap();
        // It came at the 950th of a thousand, when some 475 had left.
        assert!(last < 500, "{last} of {}", out.len());
    }
}
