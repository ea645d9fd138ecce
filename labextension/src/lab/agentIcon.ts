/** The sign of the agent: a spark in a cell. */
import { LabIcon } from '@jupyterlab/ui-components';

export const agentIcon = new LabIcon({
  name: 'ipyagent:agent',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3" fill="#616161">
    <path d="M5 4h7v2H5v13h14v-6h2v6a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2z"/>
    <path d="M17 1q.6 5.4 6 6-5.4.6-6 6-.6-5.4-6-6 5.4-.6 6-6z"/>
    <path d="M7 15h7v2H7z"/>
  </g>
</svg>`
});
