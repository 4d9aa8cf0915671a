//! Queue disciplines by name.

use std::sync::Arc;

use rc3_core::units::Rate;
use rc3_queue::FqCodelConfig;

use super::{Fault, Parameters};
use crate::{
    DropTail, FqCodel, PrimaryOnly, StrictPriority,
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

struct FairCodel;

impl QueueDiscipline for FairCodel {
    fn about(&self) -> &str {
        "Queues per flow under CoDel, which marks or drops packets that waited too long (RFC 8290). It ignores levels."
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<ParcelQueue, Fault> {
        request.parameters.none()?;
        let config = FqCodelConfig { limit: request.bytes()?, key: request.seed, ..FqCodelConfig::default() };
        Ok(Box::new(FqCodel::new(config)))
    }
}

/// The built-in ones.
pub(super) fn built_in() -> [(&'static str, Arc<dyn QueueDiscipline>); 3] {
    [("priority", Arc::new(Priority)), ("drop-tail", Arc::new(Fifo)), ("fq-codel", Arc::new(FairCodel))]
}
