//! The connections of an endpoint by their handles.

use crate::{machines::connection::Connection, quic::ConnectionHandle};

/// Handles are small, reused numbers, so a vector is enough. Each datagram causes several lookups.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    row: Vec<Option<Box<Connection>>>,
}

impl Connections {
    pub(crate) fn get(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.row.get(handle.0)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.row.get_mut(handle.0)?.as_deref_mut()
    }

    pub(crate) fn insert(&mut self, handle: ConnectionHandle, connection: Connection) {
        if self.row.len() <= handle.0 {
            self.row.resize_with(handle.0 + 1, || None);
        }
        self.row[handle.0] = Some(Box::new(connection));
    }

    pub(crate) fn remove(&mut self, handle: ConnectionHandle) -> Option<Box<Connection>> {
        self.row.get_mut(handle.0)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.row.iter().flatten().map(Box::as_ref)
    }

    /// The most connections that there have been at once.
    pub(crate) fn places(&self) -> usize {
        self.row.len()
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = ConnectionHandle> {
        let taken = self.row.iter().enumerate().filter(|(_, place)| place.is_some());
        taken.map(|(number, _)| ConnectionHandle(number))
    }
}
