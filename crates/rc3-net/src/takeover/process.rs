//! The hand-over itself, in the old process and in the new one.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rc3_core::ServerConfig;
use tokio::{
    net::UnixStream,
    sync::{mpsc, oneshot},
};

use super::{
    Successor,
    greeting::{
        Greeting, READING, READY, REFUSED, STOPPED, expect_byte, receive_greeting, send_byte, send_greeting,
    },
};
use crate::{
    bound::{Bound, Pair},
    driver::Driver,
    endpoint::{Endpoint, EndpointOptions},
    endpoint_ref::EndpointRef,
    relay::{RelayLink, SuccessorLink, prepare_descriptor, socket_pair},
    runtime::{TokioRuntime, is_tokio},
    shared::Shared,
    socket::{self, Sockets},
};

/// See [`Endpoint::hand_over`].
pub(super) async fn hand_over(endpoint: &EndpointRef, to: UnixStream) -> io::Result<Successor> {
    let busy =
        || io::Error::new(io::ErrorKind::ResourceBusy, "the port is being handed over, or was already");
    let _turn = endpoint.handing_over.try_lock().map_err(|_| busy())?;
    let first = endpoint.first();
    if first.with(|state| state.is_handed_over()) {
        return Err(busy());
    }
    expect_same_user(&to)?;
    let ours = offer_sockets(endpoint, &to).await?;
    let sending = first.bound().for_sending(&endpoint.socket)?;
    let links: io::Result<Vec<_>> = ours.into_iter().map(RelayLink::new).collect();

    let workers = endpoint.workers.to_vec();
    let (gone, all_gone) = mpsc::channel(workers.len());
    let successor = watch_successor(workers, endpoint.socket.clone(), all_gone);
    let mut stopped = Vec::new();
    for ((worker, bound), link) in endpoint.workers.iter().zip(sending).zip(links?) {
        let (stop, stopping) = oneshot::channel();
        let link = SuccessorLink { link, stopped: Some(stop), gone: gone.clone(), handed_on: false };
        worker.with(|state| state.hand_over(bound, link));
        stopped.push(stopping);
    }
    drop(gone);
    match finish_hand_over(stopped, &to).await {
        Ok(()) => {
            endpoint.each(|state| state.on_successor_reads());
            endpoint.waiters().incoming.notify_waiters();
            tracing::info!(local = ?first.bound().primary.local_addr().ok(), "another process has the port");
            Ok(successor)
        }
        Err(error) => {
            resume_reading(&endpoint.workers, &endpoint.socket)?;
            Err(error)
        }
    }
}

/// Whether the process at the other end runs as this one's user, or as root: it gets the sockets, or has sent them. The
/// kernel vouches for the user that connected, or listened (`SO_PEERCRED`, unix(7)).
fn expect_same_user(other: &UnixStream) -> io::Result<()> {
    let (theirs, ours) = (other.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
    if theirs == ours || theirs == 0 {
        return Ok(());
    }
    let text = format!(
        "the other process runs as user {theirs}, this one as user {ours}: run both as one user, and let only that user \
         reach the Unix socket"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Sends the sockets and a link for each worker; returns this process's ends of the links when the other one is ready.
async fn offer_sockets(endpoint: &EndpointRef, to: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let first = endpoint.first();
    let bound = first.bound();
    let pairs = &bound.pairs;
    let greeting =
        Greeting { workers: pairs.len(), low: bound.low.is_some(), hash: first.member.hash().copied() };
    let links: io::Result<Vec<_>> = pairs.iter().map(|_| socket_pair()).collect();
    let (ours, theirs): (Vec<_>, Vec<_>) = links?.into_iter().unzip();
    let mut descriptors = Vec::new();
    for (pair, link) in pairs.iter().zip(&theirs) {
        descriptors.extend(pair_descriptors(pair).ok_or_else(|| {
            let text = "sockets that the application implements cannot be handed over";
            io::Error::new(io::ErrorKind::Unsupported, text)
        })?);
        descriptors.push(link.as_fd());
    }
    if !is_tokio(&*first.runtime) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "only endpoints on tokio can be handed over"));
    }
    send_greeting(to, &greeting, &descriptors).await?;
    expect_byte(to, READY).await?;
    Ok(ours)
}

fn pair_descriptors(pair: &Pair) -> Option<Vec<BorrowedFd<'_>>> {
    let sockets = std::iter::once(&pair.primary).chain(&pair.low);
    sockets.map(|socket| socket.system_fd()).collect()
}

/// The workers stop reading, then the new process begins.
async fn finish_hand_over(stopped: Vec<oneshot::Receiver<()>>, to: &UnixStream) -> io::Result<()> {
    for stopped in stopped {
        stopped.await.map_err(|_| io::Error::other("the endpoint has ended during the hand-over"))?;
    }
    send_byte(to, STOPPED).await?;
    expect_byte(to, READING).await
}

/// Takes the port back if the successor is gone before the last connection has ended.
fn watch_successor(
    workers: Vec<Arc<Shared>>,
    options: socket::Options,
    mut all_gone: mpsc::Receiver<()>,
) -> Successor {
    let (announce, gone) = oneshot::channel();
    tokio::spawn(async move {
        // `None`: all links were closed on this side.
        if all_gone.recv().await.is_none() {
            return;
        }
        match resume_reading(&workers, &options) {
            Ok(()) => {
                tracing::warn!("the process that had taken the port over has ended, reading it here again")
            }
            Err(error) => {
                tracing::error!(%error, "the port cannot be read again, its connections will time out")
            }
        }
        let _ = announce.send(());
    });
    Successor { gone }
}

/// Reads the sockets again, unless that is the case already.
fn resume_reading(workers: &[Arc<Shared>], options: &socket::Options) -> io::Result<()> {
    let Some(first) = workers.first().filter(|first| first.with(|state| state.is_handed_over())) else {
        return Ok(());
    };
    let bounds = first.bound().for_both(options)?;
    for (worker, bound) in workers.iter().zip(bounds) {
        worker.with(|state| state.take_back(bound));
    }
    Ok(())
}

/// See [`Endpoint::take_over`].
pub(super) async fn take_over(
    options: EndpointOptions,
    server: Option<ServerConfig>,
    from: UnixStream,
) -> io::Result<Endpoint> {
    expect_same_user(&from)?;
    let prepared = match receive_greeting(&from).await {
        Ok((greeting, descriptors)) => prepare_endpoint(options, server, &greeting, descriptors),
        Err(error) => Err(error),
    };
    let (endpoint, drivers) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            // If it has no reader, the old process notices that.
            let _ = send_byte(&from, REFUSED).await;
            return Err(error);
        }
    };
    send_byte(&from, READY).await?;
    expect_byte(&from, STOPPED).await?;
    endpoint.spawn(drivers);
    if let Err(error) = send_byte(&from, READING).await {
        tracing::warn!(%error, "the process that had the port has ended during the hand-over");
    }
    Ok(endpoint)
}

/// An endpoint on received sockets, whose drivers do not run yet.
fn prepare_endpoint(
    options: EndpointOptions,
    server: Option<ServerConfig>,
    greeting: &Greeting,
    descriptors: Vec<OwnedFd>,
) -> io::Result<(Endpoint, Vec<Driver>)> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    if options.workers != greeting.workers {
        let text = format!("the old process has {} workers, use as many", greeting.workers);
        return Err(invalid(text));
    }
    if let Some(hash) = greeting.hash
        && options.protocol.id_len().is_ok_and(|len| len != hash.id_len())
    {
        let text = format!("connection ids of the old process have {} bytes, use as many", hash.id_len());
        return Err(invalid(text));
    }
    let (sockets, links) = sort_descriptors(greeting, descriptors, &options.socket)?;
    let links: io::Result<Vec<_>> = links.into_iter().map(RelayLink::new).collect();
    let hash = greeting.hash;
    let bind = |_: &socket::Options, _: Option<&_>| Bound::shared(sockets);
    let (endpoint, mut drivers) = Endpoint::assemble(options, server, Arc::new(TokioRuntime), hash, bind)?;
    for (driver, link) in drivers.iter_mut().zip(links?) {
        driver.set_predecessor(link);
    }
    Ok((endpoint, drivers))
}

/// The sockets and the link of each worker, from the descriptors of a greeting.
fn sort_descriptors(
    greeting: &Greeting,
    descriptors: Vec<OwnedFd>,
    options: &socket::Options,
) -> io::Result<(Vec<Sockets>, Vec<OwnedFd>)> {
    let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut descriptors = descriptors.into_iter();
    let (mut sockets, mut links) = (Vec::new(), Vec::new());
    let mut address = None;
    while let Some(primary) = descriptors.next() {
        let low = if greeting.low { descriptors.next() } else { None };
        let link = descriptors.next().filter(prepare_descriptor);
        let pair = Sockets::receive(primary, low, options)?;
        let local = pair.local_addr()?;
        if *address.get_or_insert(local) != local || pair.low().local_addr()? != local {
            return Err(invalid("the other process sent sockets that are not bound to one address"));
        }
        sockets.push(pair);
        links.push(link.ok_or_else(|| invalid("the other process sent something else than its sockets"))?);
    }
    Ok((sockets, links))
}
