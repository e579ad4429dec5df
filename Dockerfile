# A BIDS App: docker run -v /study:/data:ro -v /results:/out IMAGE tracts /data /out participant
# With a GPU: --build-arg EXTRAS=pyside6,snirf,codecs,cuda13, and docker run --gpus all
FROM python:3.13-slim

ARG EXTRAS=pyside6,snirf,codecs
LABEL org.opencontainers.image.title="napari-gpubio" \
      org.opencontainers.image.source="https://github.com/napari-gpubio/napari-gpubio" \
      org.opencontainers.image.licenses="BSD-3-Clause" \
      bids.app="true" \
      bids.app.usage="tracts|light|dose BIDS_DIR OUTPUT_DIR participant"

# what Qt needs, for the window by X11 forwarding; the verbs need none of it
RUN apt-get update && apt-get install -y --no-install-recommends \
        libdbus-1-3 libegl1 libfontconfig1 libgl1 libglib2.0-0 libxcb-cursor0 libxcb-icccm4 libxcb-image0 \
        libxcb-keysyms1 libxcb-randr0 libxcb-render-util0 libxcb-shape0 libxcb-xinerama0 libxkbcommon-x11-0 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/napari-gpubio
COPY pyproject.toml README.md LICENSE ./
COPY napari_gpubio napari_gpubio
COPY sample_data sample_data
RUN pip install --no-cache-dir ".[${EXTRAS}]"

# compiled here, once, for whichever user runs it
ENV NUMBA_CACHE_DIR=/opt/cache
RUN napari-gpubio warm && chmod -R a+rwX /opt/cache

WORKDIR /tmp
ENTRYPOINT ["napari-gpubio"]
CMD ["--help"]
