import './base.css';
import './cells.css';
import './commands.css';
import './panel.css';
import './proposals.css';
