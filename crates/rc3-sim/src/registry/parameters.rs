//! Parameters of a registered entry, as a scenario file gives them.

use serde::{Deserialize, de::DeserializeOwned};
use toml::{Table, Value};

use super::Fault;

/// The table `parameters` of a scheme, a queue or a topology.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Parameters(Table);

impl Parameters {
    /// The parameters as a type of your own. With `#[serde(deny_unknown_fields)]` unknown ones are an error.
    ///
    /// # Errors
    /// If one is missing, unknown or has another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        Value::Table(self.0.clone())
            .try_into()
            .map_err(|error: toml::de::Error| Fault::new("parameters", error.message().trim_end()))
    }

    /// For an entry that has none.
    ///
    /// # Errors
    /// If there is any.
    pub fn none(&self) -> Result<(), Fault> {
        match self.0.keys().next() {
            Some(key) => Err(Fault::new(format!("parameters.{key}"), "no parameter is known here")),
            None => Ok(()),
        }
    }
}
