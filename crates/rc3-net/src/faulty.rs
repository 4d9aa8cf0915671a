//! Endpoints whose kernel refuses calls: errors that cannot be provoked are injected.

use std::time::Duration;

use rc3_sim::identity::{SERVER_NAME, identity};

use crate::{
    endpoint::{Capabilities, Endpoint, EndpointStats},
    socket::{Calls, InjectedError},
};

const BYTES: usize = 1 << 20;

fn fault(error: i32, calls: Calls, one_in: usize) -> InjectedError {
    InjectedError { error, calls, one_in, count: 0 }
}

/// Sends from an endpoint whose sockets have this fault to one without, which must receive everything.
fn transfer_with(fault: InjectedError) -> (EndpointStats, Capabilities) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let test = async {
        let (client_config, server_config) = identity(&["test"]);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(server_config, any).unwrap();
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(client_config);
        let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (near, far) = tokio::join!(connecting, accepting);
        let near = near.unwrap();
        let bound = client.handle.first().bound();
        [Some(&bound.primary), bound.low.as_ref()].into_iter().flatten().for_each(|io| io.fail(fault));
        let data: Vec<u8> = (0..BYTES as u64).map(rc3_sim::pattern).collect();
        let sending = async {
            let mut stream = near.open_uni().await.unwrap();
            stream.write_all(&data).await.unwrap();
            stream.finish().unwrap();
            assert_eq!(stream.stopped().await, Ok(None));
        };
        let receiving = async { far.accept_uni().await.unwrap().read_to_end(BYTES).await.unwrap() };
        let ((), got) = tokio::join!(sending, receiving);
        assert!(got == data);
        (client.stats(), client.capabilities())
    };
    let patience = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(patience, test).await.expect("the transfer hangs") })
}

#[test]
fn an_offload_that_turns_out_not_to_work_is_switched_off_and_costs_no_datagram() {
    // The error of a card or a tunnel that cannot compute checksums (udp(7) does not mention it).
    let (stats, capabilities) = transfer_with(fault(libc::EIO, Calls::Batches, 1));
    for (stats, capabilities) in
        [(stats.primary, capabilities.primary), (stats.low.unwrap(), capabilities.low.unwrap())]
    {
        assert_eq!(capabilities.gso_segments_max, 1);
        assert_eq!(stats.send_drops, 0, "the batch was sent again at once");
    }
}

#[test]
fn a_queue_that_is_full_now_and_then_loses_datagrams_and_no_byte() {
    let (stats, capabilities) = transfer_with(fault(libc::ENOBUFS, Calls::Sends, 8));
    assert!(stats.primary.send_drops + stats.low.unwrap().send_drops > 0, "{stats:?}");
    assert!(capabilities.primary.gso_segments_max > 1, "the offload was not the cause");
}

#[test]
fn a_route_that_comes_and_goes_loses_datagrams_and_no_byte() {
    for error in [libc::ENETUNREACH, libc::EPERM, libc::EINVAL, libc::EMSGSIZE] {
        let (stats, _) = transfer_with(fault(error, Calls::Sends, 10));
        assert!(stats.primary.sent_datagrams > 0);
    }
}

#[test]
fn a_receive_that_fails_now_and_then_is_repeated() {
    // The kernel has no memory, an interface is down, or the socket reports what nobody understands.
    for error in [libc::ENOMEM, libc::ENOBUFS, libc::ENETDOWN, libc::EPIPE, libc::EIO, libc::EINVAL] {
        let (stats, _) = transfer_with(fault(error, Calls::Receives, 2));
        assert!(stats.primary.recv_errors > 0, "{error}: {stats:?}");
    }
}
