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

/// A TUN device to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Its name. A device that does not exist is created.
    pub name: String,
    /// The network namespace, as `ip netns` names it; `None` is the caller's.
    pub netns: Option<String>,
    /// Addresses of the host on the device: one of IPv4 at most.
    pub addresses: Vec<IpNet>,
    /// Longest packet, with its IP header.
    pub mtu: u16,
}

impl From<&PortConfig> for DeviceConfig {
    fn from(port: &PortConfig) -> Self {
        let PortConfig { name, netns, addresses, mtu, .. } = port.clone();
        Self { name, netns, addresses, mtu }
    }
}

/// An open device. If opening created it, closing removes it. Reading and writing never wait.
pub struct Device(SyncDevice);

impl Device {
    /// Opens a device and sets it up.
    ///
    /// # Errors
    /// If the system refuses, or there is no such namespace.
    pub fn open(config: &DeviceConfig) -> Result<Self, ForwardError> {
        let failed = |source| ForwardError::Device { name: config.name.clone(), source };
        let open = || build(config).map(Self).map_err(failed);
        match &config.netns {
            None => open(),
            Some(name) => inside(name, open)?,
        }
    }

    /// Reads one packet into an empty buffer; false if there is none.
    ///
    /// # Errors
    /// If the system fails; a device that is down has no packets.
    pub fn read(&self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        match rustix::io::read(&self.0, spare_capacity(buffer)) {
            Ok(bytes) => Ok(bytes > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            // Somebody set the device down: nothing arrives until it is up again.
            Err(Errno::BADFD | Errno::IO) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one packet; returns whether the kernel accepted it.
    pub fn write(&self, packet: &[u8]) -> bool {
        rustix::io::write(&self.0, packet).is_ok()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn build(config: &DeviceConfig) -> io::Result<SyncDevice> {
    let mut builder = DeviceBuilder::new().name(config.name.as_str()).mtu(config.mtu).with(|builder| {
        builder.tx_queue_len(TX_QUEUE_LEN);
    });
    for net in &config.addresses {
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
