"""What the service is told: by arguments, or by ``RECON4D_…`` variables of the environment."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every setting has a variable: ``RECON4D_DATA_DIR``, ``RECON4D_PORT`` and so on."""

    model_config = SettingsConfigDict(env_prefix="RECON4D_", frozen=True, extra="ignore")

    data_dir: Path = Path("recon4d-data")
    """Everything that the service keeps: its database, uploads, captures, scenes."""
    host: str = "127.0.0.1"
    """Address to listen on. Without any API key only loopback is allowed."""
    port: int = Field(default=8400, ge=0, le=65535)
    """0 takes a free one."""
    cors_origins: tuple[str, ...] = ()
    """Origins of other pages that may call the service from a browser; none by default."""

    max_upload_bytes: int = Field(default=64 * 2**30, ge=1)
    """Largest single file."""
    max_capture_bytes: int = Field(default=256 * 2**30, ge=1)
    """All files of one capture together."""
    max_capture_files: int = Field(default=128, ge=1)
    upload_expiry_s: float = Field(default=24 * 3600.0, gt=0)
    """An unfinished upload that nobody has written to for so long is deleted."""
    upload_idle_s: float = Field(default=30.0, gt=0)
    """A request that has sent nothing for so long is taken for broken: what it brought stays, and its upload is free to
    be gone on with. A network that fails does not always say so."""
    disk_reserve_bytes: int = Field(default=2 * 2**30, ge=0)
    """Uploads are refused when they would leave less than this free on the data folder's disk."""

    slots: tuple[str, ...] = ("cpu",)
    """What jobs may compute on, one job a slot at a time: accelerators such as ``nvidia:1``, or ``cpu``."""
    max_queued_jobs: int = Field(default=1000, ge=1)
    """Further jobs are refused while so many wait."""
    lease_s: float = Field(default=20.0, gt=0)
    """A running job whose process has not been heard of for so long is taken up by another one."""
    max_attempts: int = Field(default=5, ge=1)
    """How often a job's process may die before the job counts as failed."""

    session_idle_s: float = Field(default=300.0, gt=0)
    """A render or environment session that nobody has used for so long is closed."""
    max_sessions: int = Field(default=8, ge=1)

    def variables(self) -> dict[str, str]:
        """These settings as variables of the environment, for processes that are to have the same."""
        values = self.model_dump(mode="json")
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
        return {f"RECON4D_{key.upper()}": text for key, text in texts.items()}

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.data_dir / "recon4d.db"
