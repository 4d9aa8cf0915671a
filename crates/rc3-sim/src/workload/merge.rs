//! Several workloads as one.

use std::iter::Peekable;

use crate::agent::{Flow, FlowId};

/// The flows of several workloads in order of arrival, numbered anew, each with the place of its workload.
/// Workloads that come first go first among flows of the same instant.
pub struct Merge {
    parts: Vec<Peekable<Box<dyn Iterator<Item = Flow> + Send>>>,
    flows: u32,
}

impl Merge {
    /// Joins iterators each of which is in order of arrival.
    pub fn new(parts: impl Iterator<Item = Box<dyn Iterator<Item = Flow> + Send>>) -> Self {
        Self { parts: parts.map(Iterator::peekable).collect(), flows: 0 }
    }
}

impl Iterator for Merge {
    type Item = (usize, Flow);

    fn next(&mut self) -> Option<Self::Item> {
        let due = self.parts.iter_mut().enumerate().filter_map(|(n, part)| Some((part.peek()?.at, n)));
        let (_, n) = due.min()?;
        let flow = self.parts[n].next()?;
        let id = FlowId(self.flows);
        self.flows = self.flows.checked_add(1)?;
        Some((n, Flow { id, ..flow }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        agent::{HostId, Writes},
        workload::{Listed, replay::flows},
    };

    #[test]
    fn flows_of_several_workloads_come_in_order_of_arrival() {
        let list = |times: &[u64]| -> Box<dyn Iterator<Item = Flow> + Send> {
            let listed = times.iter().map(|&ms| Listed {
                at: Duration::from_millis(ms),
                from: HostId(0),
                to: HostId(1),
                bytes: ms,
            });
            Box::new(flows(listed.collect(), Writes::AtOnce))
        };
        let merged: Vec<(usize, u32, u64)> =
            Merge::new([list(&[1, 4, 4]), list(&[]), list(&[0, 4, 9])].into_iter())
                .map(|(part, flow)| (part, flow.id.0, flow.bytes))
                .collect();
        assert_eq!(merged, [(2, 0, 0), (0, 1, 1), (0, 2, 4), (0, 3, 4), (2, 4, 4), (2, 5, 9)]);
    }
}
