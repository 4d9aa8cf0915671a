//! Queue disciplines by name.

use std::sync::Arc;

use rc3_core::units::Rate;
use rc3_queue::FqCodelConfig;

use super::{Fault, Parameters};
use crate::{
    Bleached, Cake, CodelFifo, DropFront, DropTail, FqCodel, Order, Policer, PrimaryOnly, StrictPriority,
    TwoClasses,
    queue::by_packets::{ByPackets, Counted},
    scenario::LowPriority,
    world::ParcelQueue,
};

/// A queue discipline.
pub trait QueueDiscipline: Send + Sync {
    /// One line for users, with the parameters.
    fn about(&self) -> &str;

    /// The queue in front of one link. It is called once when the scenario is read, to check the parameters, and once for each
    /// link of each world.
    ///
    /// # Errors
    /// If the parameters or the limit are invalid; keys are relative to the table `queue`, `parameters.target`.
    fn queue(&self, request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault>;

    /// Whether it serves packets of the primary loop before those of RLP: what guard mode is to find out.
    fn honours_levels(&self) -> bool {
        false
    }

    /// Whether it drops what exceeds the rate of its link instead of holding it back. The link behind is then as fast as the
    /// uplinks.
    fn is_policer(&self) -> bool {
        false
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

struct Priority;

impl QueueDiscipline for Priority {
    fn about(&self) -> &str {
        "Strict priority by level with one shared limit. An arrival pushes out packets of worse levels (RC3 §2.1)."
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
        request.parameters.none()?;
        Ok(match (request.priorities, request.low_priority, request.limit) {
            (true, _, QueueLimit::Bytes(bytes)) => Box::new(StrictPriority::by_level(bytes)),
            (true, _, QueueLimit::Packets(packets)) => {
                Box::new(ByPackets::new(StrictPriority::<Counted<_>>::by_level(packets), true))
            }
            (false, LowPriority::Drop, limit) => Box::new(PrimaryOnly(drop_tail(limit))),
            (false, LowPriority::Pass, limit) => drop_tail(limit),
        })
    }

    fn honours_levels(&self) -> bool {
        true
    }
}

struct Fifo;

impl QueueDiscipline for Fifo {
    fn about(&self) -> &str {
        "First in, first out. Arrivals that do not fit are dropped."
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
        request.parameters.none()?;
        Ok(drop_tail(request.limit))
    }
}

/// Makes a queue of so many bytes without parameters.
type Make = fn(u64, &QueueRequest<'_>) -> ParcelQueue;

/// A discipline that counts bytes and has no parameters.
struct ByBytes {
    about: &'static str,
    make: Make,
    honours_levels: bool,
    is_policer: bool,
}

impl ByBytes {
    fn new(about: &'static str, make: Make) -> Self {
        Self { about, make, honours_levels: false, is_policer: false }
    }
}

impl QueueDiscipline for ByBytes {
    fn about(&self) -> &str {
        self.about
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
        request.parameters.none()?;
        Ok((self.make)(request.bytes()?, request))
    }

    fn honours_levels(&self) -> bool {
        self.honours_levels
    }

    fn is_policer(&self) -> bool {
        self.is_policer
    }
}

fn fair_codel(limit: u64, request: &QueueRequest<'_>) -> ParcelQueue {
    Box::new(FqCodel::new(FqCodelConfig { limit, key: request.seed, ..FqCodelConfig::default() }))
}

/// Without a rate nothing exceeds it.
fn policer(limit: u64, request: &QueueRequest<'_>) -> ParcelQueue {
    match request.rate {
        Some(rate) => Box::new(Policer::new(rate, limit)),
        None => Box::new(DropTail::new(limit)),
    }
}

/// The built-in ones.
pub(super) fn built_in() -> [(&'static str, Arc<dyn QueueDiscipline>); 10] {
    let ignoring = |about, make| Arc::new(ByBytes::new(about, make));
    let honouring = |about, make| Arc::new(ByBytes { honours_levels: true, ..ByBytes::new(about, make) });
    [
        ("priority", Arc::new(Priority)),
        ("drop-tail", Arc::new(Fifo)),
        (
            "drop-front",
            ignoring(
                "First in, first out. What has waited longest is dropped for arrivals that do not fit.",
                |limit, _| Box::new(DropFront::new(limit)),
            ),
        ),
        ("codel", ignoring("CoDel on a FIFO (RFC 8289).", |limit, _| Box::new(CodelFifo::new(limit)))),
        (
            "fq-codel",
            ignoring(
                "Queues per flow under CoDel, which marks or drops packets that waited too long (RFC 8290). It ignores levels.",
                fair_codel,
            ),
        ),
        (
            "cake",
            honouring(
                "CAKE's `diffserv3`: on a busy link RLP shares with the primary loop 64 : 1024.",
                |limit, request| Box::new(Cake::new(limit, request.seed)),
            ),
        ),
        (
            "policer",
            Arc::new(ByBytes {
                is_policer: true,
                ..ByBytes::new(
                    "A token bucket of `buffer` that drops what exceeds the rate; the link behind is as fast as the uplinks.",
                    policer,
                )
            }),
        ),
        (
            "two-classes",
            honouring(
                "Two classes, RLP behind: AC_BK of a Wi-Fi sender, or of an access point with a table of its own.",
                |limit, _| Box::new(TwoClasses::new(Order::PrimaryFirst, limit)),
            ),
        ),
        (
            "inverted",
            ignoring(
                "Two classes, RLP in front: networks whose best effort is the lowest class.",
                |limit, _| Box::new(TwoClasses::new(Order::MarkedFirst, limit)),
            ),
        ),
        (
            "bleached",
            ignoring("Strict priority behind a router that clears marks.", |limit, _| {
                Box::new(Bleached(StrictPriority::by_level(limit)))
            }),
        ),
    ]
}
