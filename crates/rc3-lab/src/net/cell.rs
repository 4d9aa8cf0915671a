//! A path, who else uses it, and which flows are measured on it.

use std::time::Duration;

use super::path::Path;

/// Share of the link that one flow may need, at least, so that others can be measured beside it.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// A window is so many times the ideal completion time.
const WINDOW_IDEALS: u32 = 4;

/// Who else uses the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Company {
    /// Nobody.
    Nobody,
    /// One long flow of kernel TCP with CUBIC.
    Long,
    /// Flows of kernel TCP with CUBIC that arrive at random and need this share of the rate, from 0 to 1.
    Load(f64),
    /// A long flow and such flows.
    LongAndLoad(f64),
    /// The same flows, of the scheme under test itself.
    Own(f64),
}

impl Company {
    /// Whether one flow is long.
    pub fn has_long(self) -> bool {
        matches!(self, Self::Long | Self::LongAndLoad(_))
    }

    /// The share of the rate that flows which arrive at random need.
    pub fn load(self) -> Option<f64> {
        match self {
            Self::Nobody | Self::Long => None,
            Self::Load(share) | Self::LongAndLoad(share) | Self::Own(share) => Some(share),
        }
    }
}

/// What is measured in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its name within the experiment: letters, digits and dashes.
    pub name: String,
    /// The path.
    pub path: Path,
    /// Who else uses it.
    pub company: Company,
    /// Bytes of the flows.
    pub sizes: Vec<u64>,
    /// How often each size, each time by a new process.
    pub times: u32,
    /// Connections one after the other from one sender; from the second on they resume a TLS session.
    pub connections: u32,
    /// Whether rc3 knows the rate of the sender's card, which is that of the path then.
    pub card_known: bool,
}

impl Cell {
    /// One connection for each size, once, nobody else, and no sizes yet.
    pub fn new(name: impl Into<String>, path: Path) -> Self {
        let (company, sizes) = (Company::Nobody, Vec::new());
        Self { name: name.into(), path, company, sizes, times: 1, connections: 1, card_known: false }
    }

    /// How long others are measured around a flow of so many bytes: the same time for each scheme.
    pub fn window(&self, bytes: u64) -> Duration {
        match self.company {
            Company::Nobody => Duration::ZERO,
            _ => (self.path.ideal(bytes) * WINDOW_IDEALS * self.connections).max(WINDOW_MIN),
        }
    }

    /// How long others run before anything is measured, so that a long flow has filled the queue.
    pub fn warm_up(&self) -> Duration {
        match self.company {
            Company::Nobody => Duration::ZERO,
            Company::Long | Company::LongAndLoad(_) => Duration::from_secs(2) + self.path.rtt * 20,
            Company::Load(_) | Company::Own(_) => Duration::from_secs(1),
        }
    }

    /// How long a flow may take before it counts as failed.
    pub fn patience(&self, bytes: u64) -> Duration {
        Duration::from_secs(20) + self.path.ideal(bytes) * 40
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_for_others_only_and_estimates_hold_them() {
        let cell = |company| Cell { company, ..Cell::new("a", Path::of(100, 40)) };
        let alone = cell(Company::Nobody);
        assert_eq!((alone.window(10_000), alone.warm_up()), (Duration::ZERO, Duration::ZERO));
        let load = cell(Company::Load(0.3));
        assert_eq!(load.window(10_000), Duration::from_secs(1));
        assert!(load.window(10_000_000) > Duration::from_secs(3));
    }
}
