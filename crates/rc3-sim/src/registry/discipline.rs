//! Queue disciplines by name.

use std::collections::BTreeMap;

use rc3_core::units::Rate;
use rc3_queue::FqCodelConfig;

use super::{Fault, Parameters};
use crate::{
    Border, Cake, CodelFifo, DropFront, DropTail, FqCodel, Policer, ServedFirst, StrictPriority, TwoClasses,
    queue::by_packets::{ByPackets, Counted},
    scenario::LowPriority,
    world::ParcelQueue,
};

/// Makes a queue, see [`QueueDiscipline::queue`].
type MakeQueue = fn(&QueueRequest<'_>) -> Result<ParcelQueue, Fault>;

/// A queue discipline.
#[derive(Debug, Clone, Copy)]
pub struct QueueDiscipline {
    /// One line for users, with the parameters.
    pub about: &'static str,
    /// Makes the queue in front of one link. It is called once when the scenario is read, to check the parameters, and once for
    /// each link of each world. Keys of its faults are relative to the table `queue`, `parameters.target`.
    pub queue: MakeQueue,
    /// Whether it serves packets of the primary loop before those of RLP: what guard mode is to find out.
    pub honours_levels: bool,
    /// Whether it drops what exceeds the rate of its link instead of holding it back. The link behind is then as fast as the
    /// uplinks.
    pub is_policer: bool,
}

impl QueueDiscipline {
    /// One that ignores levels and is no policer.
    pub const fn new(about: &'static str, queue: MakeQueue) -> Self {
        Self { about, queue, honours_levels: false, is_policer: false }
    }
}

/// The place of a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueRequest<'a> {
    /// The table `queue.parameters`.
    pub parameters: &'a Parameters,
    /// Its limit.
    pub limit: QueueLimit,
    /// Rate of the link; `None` is infinitely fast.
    pub rate: Option<Rate>,
    /// Whether the router has priority queues. Hosts have.
    pub priorities: bool,
    /// What a router without priority queues does with RLP packets.
    pub low_priority: LowPriority,
    /// Seed of everything random in it.
    pub seed: u64,
}

impl QueueRequest<'_> {
    /// The limit of a discipline that counts bytes.
    ///
    /// # Errors
    /// If the limit is in packets.
    pub fn bytes(&self) -> Result<u64, Fault> {
        match self.limit {
            QueueLimit::Bytes(bytes) => Ok(bytes),
            QueueLimit::Packets(_) => Err(Fault::new(
                "buffer",
                "this discipline counts bytes, write for example \"1bdp\" or \"150KB\"",
            )),
        }
    }
}

/// The limit of a queue, which does not count the packet in service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLimit {
    /// Bytes on the wire; [`u64::MAX`] is unlimited.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
}

impl QueueLimit {
    /// No limit.
    pub const UNLIMITED: Self = Self::Bytes(u64::MAX);
}

fn drop_tail(limit: QueueLimit) -> ParcelQueue {
    match limit {
        QueueLimit::Bytes(bytes) => Box::new(DropTail::new(bytes)),
        QueueLimit::Packets(packets) => Box::new(ByPackets::new(DropTail::<Counted<_>>::new(packets), false)),
    }
}

fn priority(request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
    request.parameters.none()?;
    Ok(match (request.priorities, request.low_priority, request.limit) {
        (true, _, QueueLimit::Bytes(bytes)) => Box::new(StrictPriority::by_level(bytes)),
        (true, _, QueueLimit::Packets(packets)) => {
            Box::new(ByPackets::new(StrictPriority::<Counted<_>>::by_level(packets), true))
        }
        (false, LowPriority::Drop, limit) => Box::new(Border::dropping_low(drop_tail(limit))),
        (false, LowPriority::Pass, limit) => drop_tail(limit),
    })
}

fn fifo(request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
    request.parameters.none()?;
    Ok(drop_tail(request.limit))
}

/// A queue of so many bytes without parameters.
fn by_bytes(
    request: &QueueRequest<'_>,
    queue: impl FnOnce(u64) -> ParcelQueue,
) -> Result<ParcelQueue, Fault> {
    request.parameters.none()?;
    Ok(queue(request.bytes()?))
}

fn fair_codel(request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
    let config = |limit| FqCodelConfig { limit, key: request.seed, ..FqCodelConfig::default() };
    by_bytes(request, |limit| Box::new(FqCodel::new(config(limit))))
}

/// Without a rate nothing exceeds it.
fn policer(request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
    by_bytes(request, |limit| match request.rate {
        Some(rate) => Box::new(Policer::new(rate, limit)),
        None => Box::new(DropTail::new(limit)),
    })
}

/// Whether a built-in discipline is the same with and without [`QueueRequest::priorities`].
pub(crate) fn ignores_priorities(name: &str) -> bool {
    name != "priority" && BUILT_IN.iter().any(|(known, ..)| *known == name)
}

/// Those that serve packets of the primary loop before those of RLP.
const HONOUR_LEVELS: [&str; 3] = ["priority", "cake", "two-classes"];

/// Name, description and function of the built-in ones.
const BUILT_IN: [(&str, &str, MakeQueue); 10] = [
    (
        "priority",
        "Strict priority by level with one shared limit. An arrival pushes out packets of worse levels (RC3 §2.1).",
        priority,
    ),
    ("drop-tail", "First in, first out. Arrivals that do not fit are dropped.", fifo),
    (
        "drop-front",
        "First in, first out. What has waited longest is dropped for arrivals that do not fit.",
        |request| by_bytes(request, |limit| Box::new(DropFront::new(limit))),
    ),
    ("codel", "CoDel on a FIFO (RFC 8289).", |request| {
        by_bytes(request, |limit| Box::new(CodelFifo::new(limit)))
    }),
    (
        "fq-codel",
        "Queues per flow under CoDel, which marks or drops packets that waited too long (RFC 8290). It ignores levels.",
        fair_codel,
    ),
    ("cake", "CAKE's `diffserv3`: on a busy link RLP shares with the primary loop 64 : 1024.", |request| {
        by_bytes(request, |limit| Box::new(Cake::new(limit, request.seed)))
    }),
    (
        "policer",
        "A token bucket of `buffer` that drops what exceeds the rate; the link behind is as fast as the uplinks.",
        policer,
    ),
    (
        "two-classes",
        "Two classes, RLP behind: AC_BK of a Wi-Fi sender, or of an access point with a table of its own.",
        |request| by_bytes(request, |limit| Box::new(TwoClasses::new(ServedFirst::PrimaryFirst, limit))),
    ),
    ("inverted", "Two classes, RLP in front: networks whose best effort is the lowest class.", |request| {
        by_bytes(request, |limit| Box::new(TwoClasses::new(ServedFirst::MarkedFirst, limit)))
    }),
    ("bleached", "Strict priority behind a router that clears marks.", |request| {
        by_bytes(request, |limit| Box::new(Border::bleaching(StrictPriority::by_level(limit))))
    }),
];

/// The built-in ones by name.
pub(super) fn built_in() -> BTreeMap<String, QueueDiscipline> {
    let named = |(name, about, queue): (&str, _, _)| {
        let (honours_levels, is_policer) = (HONOUR_LEVELS.contains(&name), name == "policer");
        (name.to_owned(), QueueDiscipline { about, queue, honours_levels, is_policer })
    };
    BUILT_IN.map(named).into()
}
