//! An address of the emulator: one UDP port, read through one or two sockets.
//!
//! On a priority link it is a steered pair. Otherwise, when the emulator is slow, a flood of low-priority packets could
//! push packets of the primary loop out of the kernel's receive buffer, which knows no levels. On a link that ignores
//! marks it is one socket, because there the order of arrival among all packets matters.

use std::{io, net::SocketAddr, ops::Add, sync::Arc};

use rc3_net::socket::{Options, Socket, Sockets};

/// Requested receive buffer. The emulator must not lose packets while it is not scheduled.
const RECV_BUFFER: usize = 8 << 20;

/// One port of the emulator.
#[derive(Debug)]
pub(super) struct Port {
    primary: Arc<Socket>,
    low: Option<Arc<Socket>>,
}

/// Datagrams that sockets lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    /// Accepted for sending, then discarded.
    pub(super) send_drops: u64,
    /// Dropped by the kernel before they could be read.
    pub(super) recv_overflows: u64,
}

impl Port {
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

    pub(super) fn trouble(&self) -> Trouble {
        self.sockets().fold(Trouble::default(), |sum, socket| {
            let stats = socket.stats();
            sum + Trouble { send_drops: stats.send_drops, recv_overflows: stats.recv_overflows }
        })
    }
}

impl Add for Trouble {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            send_drops: self.send_drops + other.send_drops,
            recv_overflows: self.recv_overflows + other.recv_overflows,
        }
    }
}
