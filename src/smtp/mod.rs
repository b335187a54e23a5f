//! Pings by mail: a listener that only moves bytes, and the pure rules of the conversation and of reading a message.

pub mod address;
mod content;
pub mod dialogue;
mod html;
pub mod message;
