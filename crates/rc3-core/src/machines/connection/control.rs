//! The control stream: settings, credit, reports of resets (docs/WIRE.md, control stream). It is the first
//! unidirectional stream of each side and carries plain frames, no head records.

use bytes::Bytes;

use super::Connection;
use crate::{
    error::{PeerMisbehaved, ReadError},
    quic::{Dir, StreamId, VarInt},
    wire::control::ControlFrame,
};

/// Bytes of the local control stream that may wait for the peer to read them: reports of 100,000 streams reset at once.
/// A peer can provoke frames, so one that reads none could fill the memory.
const WAITING_MAX: u64 = 1 << 20;

/// How much of the control stream is read at once.
const READ_MAX: usize = 64 * 1024;

impl Connection {
    pub(super) fn is_peer_control(&self, id: StreamId) -> bool {
        self.overlay.is_some()
            && id.dir() == Dir::Uni
            && id.initiator() != self.primary.side()
            && id.index() == 0
    }

    /// Opens the local control stream, before any stream of the application, as soon as the peer's limit is known.
    pub(super) fn open_control(&mut self) {
        let Some(overlay) = &mut self.overlay else { return };
        if overlay.control.is_some() {
            return;
        }
        let Some(id) = self.primary.open(Dir::Uni) else { return };
        overlay.control = Some(id);
        let settings = ControlFrame::Settings(overlay.settings(&self.config));
        self.streams.on_opened(id);
        self.streams.insert_send(id, false, 0);
        self.streams.set_priority(id, i32::MAX);
        self.send_control(settings);
    }

    pub(super) fn send_control(&mut self, frame: ControlFrame) {
        let Some(id) = self.overlay.as_ref().and_then(|overlay| overlay.control) else { return };
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        // Fails only if the peer has stopped the stream, which is forbidden.
        let waiting = self.streams.with_send(id, |stream| {
            if stream.writable().is_ok() {
                stream.write(&mut [Bytes::from(bytes)], usize::MAX);
            }
            stream.held().bytes
        });
        if waiting.is_some_and(|bytes| bytes > WAITING_MAX) {
            self.life.fault.get_or_insert(PeerMisbehaved::ControlBlocked);
        }
        self.schedule.needs_service = true;
    }

    /// The stream with this number; `None` for the local control stream, which is not the peer's to hold or to hasten.
    fn sent_by_application(&self, number: u64) -> Option<StreamId> {
        let id = VarInt::from_u64(number).map(StreamId::from).ok()?;
        let control = self.overlay.as_ref().and_then(|overlay| overlay.control);
        (control != Some(id)).then_some(id)
    }

    /// Reports to the peer how much credit a locally reset stream had used.
    pub(super) fn report_reset(&mut self, id: StreamId) {
        if self.overlay.is_some()
            && let Some(stream) = self.streams.send(id)
        {
            let used = stream.usage();
            self.send_control(ControlFrame::StreamReset { stream: VarInt::from(id).into_inner(), used });
        }
    }

    pub(super) fn read_control(&mut self, id: StreamId) {
        loop {
            let mut chunks = Vec::new();
            let end = self.primary.read(id, READ_MAX, true, &mut chunks);
            for (_, bytes) in chunks {
                if self.life.fault.is_none() {
                    self.on_control_bytes(&bytes);
                }
            }
            match end {
                Ok(true) => {}
                Err(ReadError::Blocked) => return,
                Ok(false) | Err(_) => {
                    self.life.fault.get_or_insert(PeerMisbehaved::ControlClosed);
                }
            }
            if self.life.fault.is_some() {
                return;
            }
        }
    }

    fn on_control_bytes(&mut self, bytes: &[u8]) {
        let Some(overlay) = &mut self.overlay else { return };
        overlay.decoder.push(bytes);
        while let Some(overlay) = &mut self.overlay {
            match overlay.decoder.next() {
                Ok(Some(frame)) => self.on_control_frame(frame),
                Ok(None) => return,
                Err(_) => {
                    self.life.fault = Some(PeerMisbehaved::Malformed("control frame"));
                    return;
                }
            }
        }
    }

    fn on_control_frame(&mut self, frame: ControlFrame) {
        let Some(overlay) = &mut self.overlay else { return };
        match frame {
            ControlFrame::Settings(settings) => {
                overlay.send_credit.on_settings(settings.connection_credit, settings.stream_credit);
                overlay.arrivals.on_wanted(settings.arrivals);
                self.streams.set_rlp_limits(settings.stream_credit, overlay.control);
            }
            ControlFrame::MaxRlpData(limit) => {
                // Once per batch, because a peer may send many frames, and there may be many streams.
                if overlay.send_credit.raise(limit) {
                    self.streams.queue_all_for_rlp();
                }
            }
            ControlFrame::MaxRlpStreamData { stream, limit } => {
                let Some(id) = self.sent_by_application(stream) else { return };
                self.streams.with_send(id, |stream| stream.rlp_limit = stream.rlp_limit.max(limit));
                self.streams.queue_for_rlp(id);
            }
            ControlFrame::Signal { leading } => self.on_signal(leading),
            ControlFrame::Path(number) => {
                overlay.openers.on_path(number);
            }
            ControlFrame::Early(secret) => self.on_early_secret(&secret),
            ControlFrame::ReceiverId { number, id } => self.on_receiver_id(number, id),
            ControlFrame::Pause { stream, paused } => {
                if let Some(id) = self.sent_by_application(stream) {
                    self.streams.set_paused(id, paused);
                }
            }
            ControlFrame::StreamReset { stream, used } => {
                let Ok(id) = VarInt::from_u64(stream).map(StreamId::from) else { return };
                match self.streams.recv_mut(id) {
                    Some(stream) if !stream.usage_reported => {
                        stream.usage_reported = true;
                        overlay.recv_credit.on_used(used, stream.counted());
                    }
                    Some(_) => {}
                    None => overlay.recv_credit.on_reported(id, used),
                }
                self.grant();
            }
        }
    }
}
