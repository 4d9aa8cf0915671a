//! The rc3 command: a WAN demonstration and verified file transfer.
