//! Congestion controllers, queue disciplines and topologies by name: those of this crate, and your own.
//!
//! Scenario files name them in `scheme.congestion`, `queue.discipline` and `topology.kind`. A [`Registry`] begins with the
//! built-in ones; add yours and read scenarios with [`Scenario::parse_with`](crate::scenario::Scenario::parse_with). Each of the
//! three traits has one method that makes something and one that describes it. docs/EXTENDING.md is a guide.
//!
//! ```
//! use std::sync::Arc;
//! use rc3_core::{TransportConfig, congestion::CubicConfig};
//! use rc3_sim::{registry::{CongestionControl, Fault, Parameters, Registry}, scenario::Scenario};
//!
//! /// CUBIC with an initial window that scenario files choose: `parameters = { packets = 32 }`.
//! struct LargeCubic;
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Window {
//!     packets: u64,
//! }
//!
//! impl CongestionControl for LargeCubic {
//!     fn about(&self) -> &str {
//!         "CUBIC with a larger initial window"
//!     }
//!
//!     fn configure(&self, parameters: &Parameters, _: u64, transport: &mut TransportConfig) -> Result<(), Fault> {
//!         let Window { packets } = parameters.read()?;
//!         let mut cubic = CubicConfig::default();
//!         cubic.initial_window(packets * 1460);
//!         transport.congestion_controller_factory(Arc::new(cubic));
//!         Ok(())
//!     }
//! }
//!
//! let mut registry = Registry::default();
//! registry.add_congestion("large-cubic", LargeCubic);
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
//! assert_eq!(scenario.expand()?[0].schemes[0].congestion.name(), "large-cubic");
//! // A name that is not registered is an error, with the ones that are.
//! let error = scenario.set("scheme.mine.congestion=large-cubik").unwrap_err();
//! assert!(error.to_string().contains("did you mean `large-cubic`?"), "{error}");
//! # Ok::<(), rc3_sim::scenario::ScenarioError>(())
//! ```

mod congestion;
mod discipline;
mod parameters;
mod registered;
mod topology;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

use rc3_text::document::{nearest, quoted};

pub use self::{
    congestion::CongestionControl,
    discipline::{QueueDiscipline, QueueLimit, QueueRequest},
    parameters::Parameters,
    registered::{Congestion, Discipline, Registered},
    topology::{HOST_KEYS, TopologyKind, TopologyRequest},
};
pub use rc3_text::document::Fault;

/// Names and what they stand for. The default has the built-in ones.
#[derive(Clone)]
pub struct Registry {
    congestion: Names<dyn CongestionControl>,
    disciplines: Names<dyn QueueDiscipline>,
    topologies: Names<dyn TopologyKind>,
}

type Names<T> = BTreeMap<String, Arc<T>>;

/// One set for all registries, so that worlds of two of them compare equal.
static BUILT_IN: LazyLock<Registry> = LazyLock::new(|| Registry {
    congestion: named(congestion::built_in()),
    disciplines: named(discipline::built_in()),
    topologies: named(topology::built_in()),
});

fn named<T: ?Sized, const N: usize>(entries: [(&str, Arc<T>); N]) -> Names<T> {
    entries.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect()
}

impl Default for Registry {
    fn default() -> Self {
        BUILT_IN.clone()
    }
}

impl Registry {
    /// Registers a congestion controller; it replaces one of the same name.
    pub fn add_congestion(&mut self, name: &str, entry: impl CongestionControl + 'static) -> &mut Self {
        self.congestion.insert(name.to_owned(), Arc::new(entry));
        self
    }

    /// Registers a queue discipline; it replaces one of the same name.
    pub fn add_discipline(&mut self, name: &str, entry: impl QueueDiscipline + 'static) -> &mut Self {
        self.disciplines.insert(name.to_owned(), Arc::new(entry));
        self
    }

    /// Registers a topology; it replaces one of the same name.
    pub fn add_topology(&mut self, name: &str, entry: impl TopologyKind + 'static) -> &mut Self {
        self.topologies.insert(name.to_owned(), Arc::new(entry));
        self
    }

    /// Names and descriptions of all congestion controllers.
    pub fn congestion(&self) -> impl Iterator<Item = (&str, &str)> {
        self.congestion.iter().map(|(name, entry)| (name.as_str(), entry.about()))
    }

    /// Names and descriptions of all queue disciplines.
    pub fn disciplines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.disciplines.iter().map(|(name, entry)| (name.as_str(), entry.about()))
    }

    /// Names, descriptions and keys of all topologies.
    pub fn topologies(&self) -> impl Iterator<Item = (&str, &str, Vec<&'static str>)> {
        self.topologies.iter().map(|(name, entry)| (name.as_str(), entry.about(), entry.keys()))
    }

    pub(crate) fn find_congestion(&self, name: &str, key: &str) -> Result<Arc<dyn CongestionControl>, Fault> {
        find(&self.congestion, name, key)
    }

    pub(crate) fn find_discipline(&self, name: &str, key: &str) -> Result<Arc<dyn QueueDiscipline>, Fault> {
        find(&self.disciplines, name, key)
    }

    pub(crate) fn find_topology(&self, name: &str, key: &str) -> Result<Arc<dyn TopologyKind>, Fault> {
        find(&self.topologies, name, key)
    }
}

fn find<T: ?Sized>(names: &Names<T>, name: &str, key: &str) -> Result<Arc<T>, Fault> {
    names.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = names.keys().map(String::as_str).collect();
        let hint = match nearest(name, &known) {
            Some(known) => format!("did you mean `{known}`? "),
            None => String::new(),
        };
        Fault::new(key, format!("unknown value `{name}`, {hint}registered are {}", quoted(&known)))
    })
}

/// Whether two maps have the same entries under the same names.
fn same<T: ?Sized>(a: &Names<T>, b: &Names<T>) -> bool {
    let is_in_b =
        |(name, entry): (&String, &Arc<T>)| b.get(name).is_some_and(|other| registered::same(entry, other));
    a.len() == b.len() && a.iter().all(is_in_b)
}

impl PartialEq for Registry {
    fn eq(&self, other: &Self) -> bool {
        same(&self.congestion, &other.congestion)
            && same(&self.disciplines, &other.disciplines)
            && same(&self.topologies, &other.topologies)
    }
}

impl Eq for Registry {}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("congestion", &self.congestion.keys())
            .field("disciplines", &self.disciplines.keys())
            .field("topologies", &self.topologies.keys())
            .finish()
    }
}
