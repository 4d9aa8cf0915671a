//! TUN devices: one whole IP packet per call, with complete checksums and never longer than the MTU.

use std::{fs::File, io, os::fd::AsFd, path::Path};

use ipnet::IpNet;
use rustix::{
    buffer::spare_capacity,
    fd::BorrowedFd,
    io::{Errno, ioctl_fionbio},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::{config::PortConfig, error::ForwardError};

/// Packets that the kernel queues while this process does not run: 48 ms of full packets at 1 Gbit/s. The process reads
/// them as soon as it runs, so this is not a queue in front of the link.
const TX_QUEUE_LEN: u32 = 4000;

/// An open device. If opening created it, closing removes it.
pub(crate) struct Device(SyncDevice);

impl Device {
    pub(crate) fn open(port: &PortConfig) -> Result<Self, ForwardError> {
        let failed = |source| ForwardError::Device { name: port.name.clone(), source };
        let open = || build(port).map(Self).map_err(failed);
        match &port.netns {
            None => open(),
            Some(name) => inside(name, open)?,
        }
    }

    /// Reads one packet into an empty buffer; false if there is none.
    pub(crate) fn read(&self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        match rustix::io::read(&self.0, spare_capacity(buffer)) {
            Ok(bytes) => Ok(bytes > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            // Somebody set the device down: nothing arrives until it is up again.
            Err(Errno::BADFD | Errno::IO) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one packet; returns whether the kernel accepted it.
    pub(crate) fn write(&self, packet: &[u8]) -> bool {
        rustix::io::write(&self.0, packet).is_ok()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn build(port: &PortConfig) -> io::Result<SyncDevice> {
    let mut builder = DeviceBuilder::new().name(port.name.as_str()).mtu(port.mtu).with(|builder| {
        builder.tx_queue_len(TX_QUEUE_LEN);
    });
    for net in &port.addresses {
        builder = match net {
            IpNet::V4(net) => builder.ipv4(net.addr(), net.prefix_len(), None),
            IpNet::V6(net) => builder.ipv6(net.addr(), net.prefix_len()),
        };
    }
    let device = builder.build_sync()?;
    ioctl_fionbio(&device, true)?;
    Ok(device)
}

/// Runs a function inside a network namespace. Only this thread enters it and returns.
fn inside<T>(name: &str, what: impl FnOnce() -> T) -> Result<T, ForwardError> {
    let failed = |source: io::Error| ForwardError::Namespace { name: name.to_owned(), source };
    let enter = |file: &File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    let home = File::open("/proc/thread-self/ns/net").map_err(failed)?;
    let there = File::open(Path::new("/run/netns").join(name)).map_err(failed)?;
    enter(&there).map_err(|error| failed(error.into()))?;
    let done = what();
    enter(&home).map_err(|error| failed(error.into()))?;
    Ok(done)
}
