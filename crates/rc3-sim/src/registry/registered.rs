//! A registered entry together with its name and parameters.

use std::{fmt, ptr, sync::Arc};

use super::{CongestionControl, Parameters, QueueDiscipline};

/// An entry of a registry as a world uses it. Two are equal if name, parameters and entry are.
pub struct Registered<T: ?Sized> {
    name: String,
    parameters: Parameters,
    entry: Arc<T>,
}

/// The congestion controller of a scheme.
pub type Congestion = Registered<dyn CongestionControl>;

/// The queue discipline of a world.
pub type Discipline = Registered<dyn QueueDiscipline>;

impl<T: ?Sized> Registered<T> {
    pub(crate) fn new(name: &str, parameters: Parameters, entry: Arc<T>) -> Self {
        Self { name: name.to_owned(), parameters, entry }
    }

    /// The name in scenario files.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The entry.
    pub fn entry(&self) -> &T {
        &self.entry
    }
}

/// Whether both are one entry. Types without fields have addresses of their own, too: an `Arc` counts references.
pub(super) fn same<T: ?Sized>(a: &Arc<T>, b: &Arc<T>) -> bool {
    ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

impl<T: ?Sized> Clone for Registered<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), parameters: self.parameters.clone(), entry: self.entry.clone() }
    }
}

impl<T: ?Sized> PartialEq for Registered<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.parameters == other.parameters && same(&self.entry, &other.entry)
    }
}

impl<T: ?Sized> fmt::Debug for Registered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(&self.name).field(&self.parameters).finish()
    }
}
