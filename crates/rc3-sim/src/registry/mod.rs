//! Congestion controllers, queue disciplines and topologies by name: those of this crate, and your own.
//!
//! Scenario files name them in `scheme.congestion`, `queue.discipline` and `topology.kind`. A [`Registry`] begins with the
//! built-in ones; add yours and read scenarios with [`Scenario::parse_with`](crate::scenario::Scenario::parse_with). An entry
//! is a function that makes something, with a description. docs/EXTENDING.md is a guide.
//!
//! ```
//! use std::sync::Arc;
//! use rc3_core::{TransportConfig, congestion::CubicConfig};
//! use rc3_sim::{registry::{CongestionControl, CongestionRequest, Fault, Registry}, scenario::Scenario};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Window {
//!     packets: u64,
//! }
//!
//! /// CUBIC with an initial window that scenario files choose: `parameters = { packets = 32 }`.
//! fn large_cubic(request: &CongestionRequest<'_>, transport: &mut TransportConfig) -> Result<(), Fault> {
//!     let Window { packets } = request.parameters.read()?;
//!     let mut cubic = CubicConfig::default();
//!     cubic.initial_window(packets * 1460);
//!     transport.congestion_controller_factory(Arc::new(cubic));
//!     Ok(())
//! }
//!
//! let mut registry = Registry::default();
//! let entry = CongestionControl { about: "CUBIC with a larger initial window", configure: large_cubic };
//! registry.congestion.insert("large-cubic".to_owned(), entry);
//! let text = r#"
//!     name = "mine"
//!     title = "Mine"
//!     topology = { kind = "dumbbell", hosts = 1 }
//!     workload = { arrivals = "poisson", sizes = "allman2013", load = 0.1 }
//!     [[scheme]]
//!     name = "mine"
//!     kind = "plain"
//!     congestion = "large-cubic"
//!     parameters = { packets = 32 }
//! "#;
//! let mut scenario = Scenario::parse_with(text, "mine.toml", &registry)?;
//! assert_eq!(scenario.expand()?[0].schemes[0].congestion.name, "large-cubic");
//! // A name that is not registered is an error, with the ones that are.
//! let error = scenario.set("scheme.mine.congestion=large-cubik").unwrap_err();
//! assert!(error.to_string().contains("did you mean `large-cubic`?"), "{error}");
//! # Ok::<(), rc3_sim::scenario::ScenarioError>(())
//! ```

mod congestion;
mod discipline;
mod parameters;
mod topology;

use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

use rc3_text::document::{nearest, quoted};

pub(crate) use self::discipline::ignores_priorities;
pub use self::{
    congestion::{CongestionControl, CongestionRequest},
    discipline::{QueueDiscipline, QueueLimit, QueueRequest},
    parameters::Parameters,
    topology::{HOST_KEYS, TopologyKind, TopologyRequest, host_keys_and},
};
pub use rc3_text::document::Fault;

/// Names and what they stand for. The default has the built-in ones.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Congestion controllers.
    pub congestion: BTreeMap<String, CongestionControl>,
    /// Queue disciplines.
    pub disciplines: BTreeMap<String, QueueDiscipline>,
    /// Topologies.
    pub topologies: BTreeMap<String, TopologyKind>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            congestion: congestion::built_in(),
            disciplines: discipline::built_in(),
            topologies: topology::built_in(),
        }
    }
}

/// A number that stands at `key`, if it is within these bounds.
pub(crate) fn within<T: PartialOrd + fmt::Display>(
    number: T,
    bounds: RangeInclusive<T>,
    key: impl Into<String>,
) -> Result<T, Fault> {
    match bounds.contains(&number) {
        true => Ok(number),
        false => Err(Fault::new(key, format!("not within {} to {}", bounds.start(), bounds.end()))),
    }
}

/// The entry of a name that stands at `key`.
pub(crate) fn find<T: Copy>(entries: &BTreeMap<String, T>, name: &str, key: &str) -> Result<T, Fault> {
    entries.get(name).copied().ok_or_else(|| {
        let known: Vec<&str> = entries.keys().map(String::as_str).collect();
        let hint = match nearest(name, &known) {
            Some(known) => format!("did you mean `{known}`? "),
            None => String::new(),
        };
        Fault::new(key, format!("unknown value `{name}`, {hint}registered are {}", quoted(&known)))
    })
}

/// An entry of a registry as a world uses it. Two of one registry are equal if name and parameters are.
#[derive(Clone)]
pub struct Registered<T> {
    /// The name in scenario files.
    pub name: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// The entry.
    pub entry: T,
}

impl<T> PartialEq for Registered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.parameters == other.parameters
    }
}

impl<T> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.parameters).finish()
    }
}
