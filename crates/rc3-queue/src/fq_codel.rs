//! FQ-CoDel with ECN (RFC 8290): flows take turns, new ones first, and each has its own CoDel state.
//!
//! Invariants: `waiting` has the sum of the flows' bytes, at most the limit, and a flow that holds packets is in
//! exactly one of the two lists.

use std::{collections::VecDeque, time::Instant};

use crate::{
    CoDel, Queue, Queued, Routed, Tally,
    codel::{CodelState, CodelVerdict},
};

/// Most packets dropped at once for lack of space (RFC 8290 §4.1): finding the longest flow is expensive.
const DROP_BATCH: usize = 64;
/// Packet slots that an empty flow keeps.
const IDLE_CAPACITY: usize = 64;

/// Configuration of an [`FqCodel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Limit in bytes over all flows: 10 MiB.
    pub limit: u64,
    /// Parameters of CoDel.
    pub codel: CoDel,
    /// Bytes a flow may send in its turn: 1514, a full Ethernet frame. A packet with at most that much behind it never
    /// counts as late.
    pub quantum: u32,
    /// Number of queues that flows are hashed into: 1024.
    pub flows: u16,
    /// Whether to mark packets of ECN-capable flows instead of dropping them: yes.
    pub ecn: bool,
    /// Random, so that nobody can choose which flows share a queue: 0.
    pub key: u64,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self { limit: 10 << 20, codel: CoDel::default(), quantum: 1514, flows: 1024, ecn: true, key: 0 }
    }
}

/// Flow queues under CoDel.
///
/// ```
/// use std::time::Instant;
/// use rc3_queue::{FqCodel, FqCodelConfig, Queue};
/// # use rc3_queue::{Queued, Routed};
/// # struct Packet { flow: u64 }
/// # impl Queued for Packet {
/// #     fn bytes(&self) -> u64 { 1500 }
/// #     fn class(&self) -> u8 { 0 }
/// # }
/// # impl Routed for Packet {
/// #     fn flow_hash(&self, _key: u64) -> u64 { self.flow }
/// #     fn mark_congestion(&mut self) -> bool { false }
/// # }
///
/// let now = Instant::now();
/// let mut queue = FqCodel::new(FqCodelConfig::default());
/// for flow in [1, 1, 1, 2] {
///     queue.enqueue(now, Packet { flow }, &mut |_| unreachable!("there is room"));
/// }
/// let order = std::iter::from_fn(|| queue.dequeue(now, &mut |_| {})).map(|packet| packet.flow);
/// assert_eq!(order.take(3).collect::<Vec<_>>(), [1, 1, 2], "1514 bytes are the start of a second packet");
/// ```
#[derive(Debug)]
pub struct FqCodel<T> {
    config: FqCodelConfig,
    flows: Vec<FlowQueue<T>>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    waiting: Tally,
    marked: u64,
}

#[derive(Debug)]
struct FlowQueue<T> {
    /// Packets with their arrival times.
    packets: VecDeque<(Instant, T)>,
    bytes: u64,
    /// Remaining bytes in its turn.
    deficit: i64,
    codel: CodelState,
    listed: bool,
}

impl<T> Default for FlowQueue<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, deficit: 0, codel: CodelState::default(), listed: false }
    }
}

impl<T: Queued> FlowQueue<T> {
    fn pop(&mut self) -> Option<(Instant, T)> {
        let (arrived, packet) = self.packets.pop_front()?;
        self.bytes -= packet.bytes();
        Some((arrived, packet))
    }
}

impl<T: Queued + Routed> FqCodel<T> {
    /// An empty queue.
    ///
    /// # Panics
    /// If there are no flows, or the quantum is zero.
    pub fn new(config: FqCodelConfig) -> Self {
        assert!(config.flows > 0 && config.quantum > 0, "flows and quantum must be above zero: {config:?}");
        let flows = (0..config.flows).map(|_| FlowQueue::default()).collect();
        Self {
            config,
            flows,
            new: VecDeque::new(),
            old: VecDeque::new(),
            waiting: Tally::default(),
            marked: 0,
        }
    }

    /// Drops from the head of the longest flow, at most half of it (RFC 8290 §4.1).
    fn drop_from_fattest(&mut self, dropped: &mut dyn FnMut(T)) {
        let Some(fattest) = self.flows.iter_mut().max_by_key(|flow| flow.bytes) else { return };
        let keep = fattest.bytes / 2;
        for _ in 0..DROP_BATCH {
            let Some((_, packet)) = fattest.pop() else { break };
            self.waiting.bytes -= packet.bytes();
            self.waiting.packets -= 1;
            dropped(packet);
            if fattest.bytes <= keep {
                break;
            }
        }
    }

    /// The next packet of a flow that CoDel does not drop.
    fn dequeue_flow(&mut self, index: u16, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T> {
        let flow = &mut self.flows[usize::from(index)];
        loop {
            let Some((arrived, mut packet)) = flow.pop() else {
                flow.codel.on_empty();
                return None;
            };
            let short = flow.bytes <= u64::from(self.config.quantum);
            self.waiting.bytes -= packet.bytes();
            self.waiting.packets -= 1;
            let sojourn = now.saturating_duration_since(arrived);
            match flow.codel.decide_on_head(&self.config.codel, now, sojourn, short) {
                CodelVerdict::Send => return Some(packet),
                CodelVerdict::Signal if self.config.ecn && packet.mark_congestion() => {
                    self.marked += 1;
                    return Some(packet);
                }
                CodelVerdict::Signal => dropped(packet),
            }
        }
    }
}

impl<T: Queued + Routed> Queue<T> for FqCodel<T> {
    fn enqueue(&mut self, now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let index = (packet.flow_hash(self.config.key) % u64::from(self.config.flows)) as u16;
        let flow = &mut self.flows[usize::from(index)];
        self.waiting += Tally { packets: 1, bytes: packet.bytes() };
        flow.bytes += packet.bytes();
        flow.packets.push_back((now, packet));
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.config.quantum.into();
            self.new.push_back(index);
        }
        while self.waiting.bytes > self.config.limit {
            self.drop_from_fattest(dropped);
        }
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T> {
        loop {
            let (index, is_new) = match self.new.front() {
                Some(&index) => (index, true),
                None => (*self.old.front()?, false),
            };
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = &mut self.flows[usize::from(index)];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.config.quantum);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            if let Some(packet) = self.dequeue_flow(index, now, dropped) {
                self.flows[usize::from(index)].deficit -= packet.bytes() as i64;
                return Some(packet);
            }
            // An emptied new flow becomes an old one for one turn; otherwise it could always return as a new flow
            // before the old ones (RFC 8290 §4.2).
            if is_new && !self.old.is_empty() {
                self.new.pop_front();
                self.old.push_back(index);
            } else {
                let list = if is_new { &mut self.new } else { &mut self.old };
                list.pop_front();
                let flow = &mut self.flows[usize::from(index)];
                flow.listed = false;
                flow.packets.shrink_to(IDLE_CAPACITY);
            }
        }
    }

    fn waiting(&self) -> Tally {
        self.waiting
    }

    fn limit(&self) -> u64 {
        self.config.limit
    }

    fn marked(&self) -> u64 {
        self.marked
    }
}
