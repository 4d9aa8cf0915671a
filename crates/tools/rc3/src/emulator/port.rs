//! An address of the emulator: one UDP port, read through one or two sockets.
//!
//! On a priority link it is a steered pair. Otherwise, when the emulator is slow, a flood of low-priority packets could
//! push packets of the primary loop out of the kernel's receive buffer, which knows no levels. On a link that ignores
//! marks it is one socket, because there the order of arrival among all packets matters.

use std::{io, net::SocketAddr, sync::Arc};

use rc3_net::socket::{Options, Socket, Sockets};

/// Requested receive buffer. The emulator must not lose packets while it is not scheduled.
const RECV_BUFFER: usize = 8 << 20;

/// One port of the emulator.
#[derive(Debug)]
pub(super) struct EmulatorPort {
    primary: Arc<Socket>,
    low: Option<Arc<Socket>>,
}

impl EmulatorPort {
    /// Binds `address`; `steered` asks for a pair.
    pub(super) fn bind(address: SocketAddr, steered: bool) -> io::Result<Self> {
        let options = Options { recv_buffer: RECV_BUFFER, ..Options::default() };
        if steered {
            let Sockets { primary, low } = Sockets::bind(address, &options)?;
            Ok(Self { primary: Arc::new(primary), low: low.map(Arc::new) })
        } else {
            Ok(Self { primary: Arc::new(Socket::bind_plain(address, &options)?), low: None })
        }
    }

    /// The socket to send from.
    pub(super) fn primary(&self) -> &Arc<Socket> {
        &self.primary
    }

    /// The sockets to read, the primary's first.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        std::iter::once(&self.primary).chain(&self.low)
    }

    /// Datagrams that the sockets lost: accepted for sending and then discarded, or dropped before they could be read.
    pub(super) fn lost(&self) -> u64 {
        let stats = self.sockets().map(|socket| socket.stats());
        stats.map(|stats| stats.send_drops + stats.recv_overflows).sum()
    }
}
