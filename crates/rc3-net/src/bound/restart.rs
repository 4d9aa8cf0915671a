//! The sockets during a graceful restart: two processes have descriptors of the same ones.

use std::{io, sync::Arc};

use super::{Bound, Pair};
use crate::socket::{EndpointSocket, Options, PacketSocket, Sockets};

impl Pair {
    /// Other descriptors of the same sockets.
    fn duplicate(&self, options: &Options) -> io::Result<Sockets> {
        let duplicate = |socket: &EndpointSocket| {
            let fd = socket.system_fd().ok_or(io::ErrorKind::Unsupported)?;
            fd.try_clone_to_owned()
        };
        let low = self.low.as_ref().map(duplicate).transpose()?;
        Sockets::receive(duplicate(&self.primary)?, low, options)
    }
}

impl Bound {
    /// Sockets that another process has sent, and still sends by.
    ///
    /// # Errors
    /// When the runtime cannot watch them.
    pub(crate) fn shared(sockets: Vec<Sockets>) -> io::Result<Vec<Self>> {
        let bounds = Self::system(sockets)?;
        bounds.iter().for_each(|bound| bound.set_shared(true));
        Ok(bounds)
    }

    /// The same sockets, only to send: another process reads them.
    ///
    /// # Errors
    /// When there are no descriptors left, or the sockets are not the system's.
    pub(crate) fn for_sending(&self, options: &Options) -> io::Result<Vec<Self>> {
        let options = Options { packet_socket: PacketSocket::Never, ..options.clone() };
        let sending = |Sockets { primary, low }| Pair {
            primary: EndpointSocket::Sending(primary),
            low: low.map(EndpointSocket::Sending),
        };
        let pairs: io::Result<Arc<[Pair]>> =
            self.pairs.iter().map(|pair| pair.duplicate(&options).map(sending)).collect();
        let bounds = Self::of(pairs?);
        bounds.iter().for_each(|bound| bound.set_shared(true));
        Ok(bounds)
    }

    /// The same sockets, to send and to read.
    ///
    /// # Errors
    /// As [`Self::for_sending`], and when the runtime cannot watch them.
    pub(crate) fn for_both(&self, options: &Options) -> io::Result<Vec<Self>> {
        let sockets: io::Result<_> = self.pairs.iter().map(|pair| pair.duplicate(options)).collect();
        Self::system(sockets?)
    }
}
