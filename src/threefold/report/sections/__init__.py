"""The parts of a report, one file a subject: each turns records or plans into figures."""
